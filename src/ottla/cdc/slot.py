"""The publication (which tables) and the replication slot (from where on) that a capture has in PostgreSQL.

A slot makes PostgreSQL keep its write-ahead log until the capture has acknowledged it, also while no capture runs: one
that is left behind fills the disk. Nothing here is done twice: what exists is used, if it is what it must be.
"""

from dataclasses import dataclass
from typing import Any, Final

from psycopg2 import sql
from psycopg2.extensions import connection as PostgresConnection

from ottla.cdc.catalog import Catalog, FoundTable
from ottla.cdc.connection import explained
from ottla.cdc.errors import CaptureError
from ottla.cdc.lsn import parse_lsn
from ottla.cdc.pgoutput import ReplicaIdentity
from ottla.cdc.settings import CaptureSettings, TableName

PLUGIN: Final = "pgoutput"
_STATE: Final = """
    SELECT plugin, active, confirmed_flush_lsn::text, wal_status = 'lost', restart_lsn IS NULL,
           (current_lsn - confirmed_flush_lsn)::bigint, (current_lsn - restart_lsn)::bigint
    FROM pg_replication_slots, LATERAL (
        SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END
    ) AS here (current_lsn)
    WHERE slot_name = %s AND database = current_database()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotState:
    is_active: bool
    is_lost: bool
    confirmed_lsn: int
    lag_bytes: int
    """Of the log, not yet acknowledged."""
    retained_bytes: int
    """Of the log, which PostgreSQL keeps for this slot."""


class SlotAdmin:
    def __init__(self, connection: PostgresConnection, settings: CaptureSettings) -> None:
        self._connection = connection
        self._settings = settings
        self._catalog = Catalog(connection)

    def check_server(self) -> None:
        """Everything that would fail later, or would make the application fail."""
        level = self._catalog.setting("wal_level")
        if level != "logical":
            raise CaptureError(f"wal_level is {level}: ALTER SYSTEM SET wal_level = 'logical', then restart PostgreSQL")
        for name in self._settings.tables:
            check_identity(name, self._catalog.find(name))

    def ensure_publication(self) -> None:
        """Before the slot: a slot that is older than its publication cannot read what lies between them."""
        published = self._published()
        if published is None:
            with explained(f"creating the publication {self._settings.publication}"):
                self._execute(
                    "CREATE PUBLICATION {} FOR TABLE {} WITH (publish_via_partition_root = true)",
                    sql.Identifier(self._settings.publication),
                    sql.SQL(", ").join(sql.Identifier(*table) for table in self._settings.tables),
                )
            return
        missing = [table for table in self._settings.tables if table not in published]
        if missing:
            raise CaptureError(
                f"the publication {self._settings.publication} lacks {', '.join(map(str, missing))}. `ottla cdc drop` and "
                "another run capture everything anew; ALTER PUBLICATION … ADD TABLE … gives changes from now on, "
                "without the rows that are there"
            )

    def _published(self) -> frozenset[TableName] | None:
        """None where there is no such publication."""
        name = self._settings.publication
        if not self._rows("SELECT 1 FROM pg_publication WHERE pubname = %s", name):
            return None
        rows = self._rows("SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s", name)
        return frozenset(TableName(*row) for row in rows)

    def state(self) -> SlotState | None:
        """None where there is no such slot."""
        rows = self._rows(_STATE, self._settings.slot)
        if not rows:
            return None
        [(plugin, is_active, confirmed, is_lost, has_no_restart, lag_bytes, retained_bytes)] = rows
        if plugin != PLUGIN:
            raise CaptureError(f"the slot {self._settings.slot} is of {plugin}: name another with postgres.slot")
        return SlotState(
            is_active=is_active,
            is_lost=bool(is_lost or has_no_restart),
            confirmed_lsn=parse_lsn(confirmed or "0/0"),
            lag_bytes=lag_bytes or 0,
            retained_bytes=retained_bytes or 0,
        )

    def drop_slot(self) -> bool:
        if self.state() is None:
            return False
        with explained(f"dropping the slot {self._settings.slot}"):
            self._rows("SELECT pg_drop_replication_slot(%s)", self._settings.slot)
        return True

    def drop_publication(self) -> None:
        with explained(f"dropping the publication {self._settings.publication}"):
            self._execute("DROP PUBLICATION IF EXISTS {}", sql.Identifier(self._settings.publication))

    def _execute(self, statement: str, *parts: sql.Composable) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(sql.SQL(statement).format(*parts))

    def _rows(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(query, parameters)
            return cursor.fetchall()


def check_identity(name: TableName, found: FoundTable) -> None:
    """Each record needs the primary key, of deleted rows too, and PostgreSQL logs that under two identities only.

    Published without it, a table would refuse the application's updates and deletes.
    """
    if not found.primary_key:
        raise CaptureError(f"{name} has no primary key, which would be the key of its records: add one")
    if found.relation.identity not in (ReplicaIdentity.DEFAULT, ReplicaIdentity.FULL):
        raise CaptureError(
            f"{name} does not log the primary key of deleted rows: ALTER TABLE {name} REPLICA IDENTITY DEFAULT "
            "(or FULL, for `before` of every change)"
        )
