"""Rows into a PostgreSQL table, as a task does it: a page of rows is a statement.

Upserts commit page by page: they can be repeated, and a lock held for one statement whose rows are sorted by key cannot
be part of a deadlock with another task's.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from ottla.spark.pipelines.postgres import Server, identifier, postgres_type

if TYPE_CHECKING:
    import pyarrow as pa
    from psycopg2.extensions import cursor as Cursor
    from psycopg2.sql import Composed
    from pyspark.sql.types import StructType

PAGE_ROWS: Final = 1000  # More in a statement gains nothing.
MARKER_TABLE: Final = "ottla_batches"
OP_COLUMN: Final = "op"
VALUE_COLUMN: Final = "value"
OP_DELETE: Final = "d"  # As Debezium's envelope has it.

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTable:
    server: Server
    name: str
    columns: tuple[str, ...]
    """Those that are stored."""
    keys: tuple[str, ...]
    order_by: str | None
    delete_by: str | None
    """The column that says whether a row is to be deleted: `op` or `value`."""

    # -- statements --------------------------------------------------------------------------------------------------

    def insert_statement(self) -> "Composed":
        from psycopg2.sql import SQL

        insert = SQL("INSERT INTO {} ({}) VALUES %s").format(identifier(self.name), _names(self.columns))
        if not self.keys:
            return insert
        others = [name for name in self.columns if name not in self.keys]
        if not others:
            return insert + SQL(" ON CONFLICT ({}) DO NOTHING").format(_names(self.keys))
        changes = SQL(", ").join(SQL("{0} = excluded.{0}").format(_names([name])) for name in others)
        upsert = insert + SQL(" ON CONFLICT ({}) DO UPDATE SET {}").format(_names(self.keys), changes)
        if self.order_by is None:
            return upsert
        is_newer = "coalesce(excluded.{1} >= {0}.{1}, {0}.{1} IS NULL)"
        return upsert + SQL(" WHERE " + is_newer).format(identifier(self.name), _names([self.order_by]))

    def delete_statement(self) -> "Composed":
        from psycopg2.sql import SQL

        # As a list, not as VALUES: there, a text would not become the type of its column.
        return SQL("DELETE FROM {} WHERE ({}) IN (%s)").format(identifier(self.name), _names(self.keys))

    def create_statement(self, schema: "StructType") -> "Composed":
        from psycopg2.sql import SQL

        columns = [
            SQL("{} " + postgres_type(field.dataType)).format(_names([field.name]))
            for field in schema.fields
            if field.name in self.columns
        ]
        if self.keys:
            columns.append(SQL("PRIMARY KEY ({})").format(_names(self.keys)))
        return SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(identifier(self.name), SQL(", ").join(columns))

    def create_marker_statement(self) -> str:
        return f"CREATE TABLE IF NOT EXISTS {MARKER_TABLE} (query_id text PRIMARY KEY, batch_number bigint NOT NULL)"

    def explain_statement(self, cursor: "Cursor") -> str:
        """Plans an insert without doing it."""
        text: str = self.insert_statement().as_string(cursor)
        return "EXPLAIN " + text.replace("%s", f"({', '.join(['NULL'] * len(self.columns))})", 1)

    # -- the work of a task ------------------------------------------------------------------------------------------

    def upsert(self, batches: Iterator["pa.RecordBatch"]) -> Iterator[int]:
        """Yields the count of rows."""
        pages = _pages(batches)
        first = next(pages, None)
        if first is None:
            return  # Without a connection: most tasks of an aggregation have no rows.
        with closing(self.server.connect()) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            for page in chain([first], pages):
                yield self._upsert_page(cursor, page)

    def append(self, batches: Iterator["pa.RecordBatch"]) -> Iterator[int]:
        with closing(self.server.connect()) as connection, connection, connection.cursor() as cursor:
            yield from self._insert_pages(cursor, batches)

    def append_once(self, query: str, number: int, batches: Iterator["pa.RecordBatch"]) -> Iterator[int]:
        with closing(self.server.connect()) as connection, connection, connection.cursor() as cursor:
            # First, for its lock: of two that write the same batch, one waits here for the other's end, and sees it.
            cursor.execute(
                f"INSERT INTO {MARKER_TABLE} AS marker VALUES (%s, %s) ON CONFLICT (query_id) DO UPDATE"
                " SET batch_number = excluded.batch_number WHERE marker.batch_number < excluded.batch_number",
                (query, number),
            )
            if cursor.rowcount:
                yield from self._insert_pages(cursor, batches)

    def _insert_pages(self, cursor: "Cursor", batches: Iterator["pa.RecordBatch"]) -> Iterator[int]:
        from psycopg2.extras import execute_values

        for page in _pages(batches):
            rows = _rows(page.select(list(self.columns)))
            execute_values(cursor, self.insert_statement(), rows, page_size=len(rows))
            yield len(rows)

    def _upsert_page(self, cursor: "Cursor", page: "pa.RecordBatch") -> int:
        from psycopg2.extras import execute_values

        stored = _rows(page.select(list(self.columns)))
        # The last of each key: a statement may not touch a row twice.
        last = {key: index for index, key in enumerate(self._page_keys(page))}
        deleted = self._deleted(page)
        rows = [stored[last[key]] for key in sorted(last) if not deleted[last[key]]]
        if rows:
            execute_values(cursor, self.insert_statement(), rows, page_size=len(rows))
        keys = [key for key in sorted(last) if deleted[last[key]]]
        if keys:
            execute_values(cursor, self.delete_statement(), keys, page_size=len(keys))
        return len(stored)

    def _page_keys(self, page: "pa.RecordBatch") -> list[Row]:
        for name in self.keys:
            if page[name].null_count:
                raise ValueError(f"a row for {self.name} has no value in {name}, a column of its key")
        return _rows(page.select(list(self.keys)))

    def _deleted(self, page: "pa.RecordBatch") -> Sequence[bool]:
        if self.delete_by is None:
            return [False] * page.num_rows
        values = page[self.delete_by].to_pylist()
        return [value == OP_DELETE if self.delete_by == OP_COLUMN else value is None for value in values]


def _names(names: Sequence[str]) -> "Composed":
    from psycopg2.sql import SQL, Identifier

    return SQL(", ").join(map(Identifier, names))


def _pages(batches: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
    for batch in batches:
        for start in range(0, batch.num_rows, PAGE_ROWS):
            yield batch.slice(start, PAGE_ROWS)


def _rows(page: "pa.RecordBatch") -> list[Row]:
    return list(zip(*map(_values, page.columns), strict=True))


def _values(column: "pa.Array") -> list[Any]:
    """As psycopg2 takes them: what is not flat is JSON."""
    import pyarrow as pa
    from psycopg2.extras import Json

    kind = column.type
    values: list[Any] = column.to_pylist()
    element = kind.value_type if pa.types.is_list(kind) else kind
    if not pa.types.is_nested(element):
        return values
    if pa.types.is_map(kind):
        values = [None if value is None else dict(value) for value in values]
    return [None if value is None else Json(value, dumps=_json) for value in values]


def _json(value: Any) -> str:
    return json.dumps(value, default=str)
