"""Changes from a replication slot, and their acknowledgement. psycopg2 answers PostgreSQL's keep-alives while we read.

psycopg2 also acknowledges by itself: where the last message that it gave us lies before what we acknowledged, it takes
the position of the next keep-alive. That is right between transactions, and lets PostgreSQL drop log that has nothing for
us. Yet a long transaction begins with a message of an old position, see `Session`, which is why `acknowledged_lsn` is here.
"""

import select
from typing import Any, NamedTuple

from ottla.cdc.connection import connect_replication, explained
from ottla.cdc.lsn import parse_lsn
from ottla.cdc.settings import CaptureSettings
from ottla.cdc.slot import PLUGIN


class NewSlot(NamedTuple):
    consistent_lsn: int
    """Where the slot begins: what was committed before is in the snapshot, what comes after in the stream."""
    snapshot_name: str
    """Good until the next command on the connection that made the slot."""


class ChangeStream:
    def __init__(self, settings: CaptureSettings) -> None:
        self._settings = settings
        self._connection = connect_replication(settings.dsn)
        self._cursor: Any = self._connection.cursor()  # Of psycopg2's C code, without types.
        self.acknowledged_lsn = 0

    def create_slot(self) -> NewSlot:
        """Waits for the transactions that are open now."""
        with explained(f"creating the slot {self._settings.slot}"):
            self._cursor.create_replication_slot(self._settings.slot, output_plugin=PLUGIN)
        _, consistent_point, snapshot_name, _ = self._cursor.fetchone()
        return NewSlot(parse_lsn(consistent_point), snapshot_name)

    def start(self, lsn: int) -> None:
        """From the first transaction on that was committed at or behind this position."""
        options = {"proto_version": "1", "publication_names": quoted(self._settings.publication)}
        with explained(f"reading the slot {self._settings.slot}"):
            self._cursor.start_replication(slot_name=self._settings.slot, start_lsn=lsn, options=options, decode=False)

    def read(self) -> tuple[int, bytes] | None:
        """The position and the bytes of the next message; None while there is none."""
        message = self._cursor.read_message()
        return None if message is None else (message.data_start, message.payload)

    def wait(self, timeout_s: float) -> None:
        select.select([self._cursor], [], [], timeout_s)

    def acknowledge(self, lsn: int) -> None:
        self._cursor.send_feedback(write_lsn=lsn, flush_lsn=lsn, apply_lsn=lsn, force=True)
        self.acknowledged_lsn = lsn

    def close(self) -> None:
        self._connection.close()


def quoted(name: str) -> str:
    """As an element of the list that `publication_names` is."""
    return '"' + name.replace('"', '""') + '"'
