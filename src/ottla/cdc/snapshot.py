"""The rows that are there when a capture begins, as of the very position from which its slot tells changes.

PostgreSQL exports that view with the slot. Rows come through a cursor on the server, some thousands at a time, in the
order of the table.
"""

from collections.abc import Iterator
from contextlib import closing
from typing import Final

from psycopg2 import sql
from psycopg2.extensions import ISOLATION_LEVEL_REPEATABLE_READ, new_type, register_type
from psycopg2.extensions import connection as PostgresConnection

from ottla.cdc.catalog import Catalog
from ottla.cdc.connection import connect, explained
from ottla.cdc.pgoutput import Relation, Row
from ottla.cdc.settings import CaptureSettings
from ottla.cdc.table import Table

ROWS_PER_FETCH: Final = 2_000


def snapshot_rows(settings: CaptureSettings, snapshot_name: str) -> Iterator[tuple[Table, Row]]:
    with closing(connect(settings.dsn)) as connection:
        connection.set_session(isolation_level=ISOLATION_LEVEL_REPEATABLE_READ, readonly=True, autocommit=False)
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION SNAPSHOT %s", [snapshot_name])
        catalog = Catalog(connection)
        for name in settings.tables:
            relation = catalog.find(name).relation
            table = catalog.table(relation, prefix=settings.prefix)
            with explained(f"reading {name}"):
                for row in _rows(connection, relation):
                    yield table, row


def _rows(connection: PostgresConnection, relation: Relation) -> Iterator[Row]:
    columns = sql.SQL(", ").join(sql.Identifier(column.name) for column in relation.columns)
    query = sql.SQL("SELECT {} FROM {}").format(columns, sql.Identifier(relation.schema, relation.table))
    with connection.cursor(name="ottla_snapshot") as cursor:
        # As the stream has them: PostgreSQL's texts, not psycopg2's numbers and dates.
        as_text = new_type(tuple({column.type_oid for column in relation.columns}), "TEXT", lambda text, cursor: text)
        register_type(as_text, cursor)
        cursor.itersize = ROWS_PER_FETCH
        cursor.execute(query)
        yield from cursor
