"""One life of the connections: transactions of PostgreSQL become transactions of Kafka until somebody stops us.

Each Kafka transaction holds whole transactions of PostgreSQL, those that arrive without a pause, up to a limit; so readers
of committed records never see a part of one. PostgreSQL is told only after Kafka has committed.

psycopg2 acknowledges keep-alives by itself once it has given us a message from before what we acknowledged (stream.py).
A transaction that was begun before that and committed after it starts with such a message: whole ones that still wait
for their commit must be out before anything more of it is read.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, assert_never

from ottla.base.errors import invariant
from ottla.cdc.catalog import Catalog
from ottla.cdc.envelope import Envelopes, Place
from ottla.cdc.pgoutput import (
    Begin,
    Change,
    Commit,
    Delete,
    Insert,
    Origin,
    Relation,
    Truncate,
    Type,
    Update,
    parse,
)
from ottla.cdc.settings import CaptureSettings, TableName
from ottla.cdc.stream import ChangeStream
from ottla.cdc.table import Table
from ottla.cdc.topic_writer import TopicWriter

RECORDS_PER_COMMIT_MAX: Final = 50_000
SECONDS_PER_COMMIT_MAX: Final = 1.0
IDLE_WAIT_S: Final = 0.5  # The longest that a stop waits while nothing happens.
STOP_SECONDS_MAX: Final = 10.0  # For the rest of a transaction; without it, the next run reads all of it again.


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    stream: ChangeStream
    writer: TopicWriter
    catalog: Catalog
    envelopes: Envelopes


class Session:
    def __init__(
        self,
        connections: Connections,
        settings: CaptureSettings,
        *,
        stopping: threading.Event,
        on_pause: Callable[[int, int], None],
    ) -> None:
        """`on_pause` gets the changes committed since it was called last and the position, between transactions."""
        self._stream = connections.stream
        self._writer = connections.writer
        self._catalog = connections.catalog
        self._envelopes = connections.envelopes
        self._settings = settings
        self._stopping = stopping
        self._stop_deadline: float | None = None
        self._on_pause = on_pause
        self._tables: dict[int, Table | None] = {}  # None: published, but not asked for
        self._open: Begin | None = None
        self._whole_lsn = 0  # Behind the last transaction that is whole and not yet acknowledged; 0 for none.
        self._last_commit_lsn: int | None = None
        self._commit_due = 0.0
        self._change_count = 0

    def run(self) -> None:
        while not self._is_done():
            message = self._stream.read()
            if message is not None:
                self._on_message(*message)
                continue
            if self._open is None:
                self._commit()
            self._stream.wait(IDLE_WAIT_S)

    def _is_done(self) -> bool:
        if not self._stopping.is_set():
            return False
        if self._open is None:
            self._commit()
            return True
        if self._stop_deadline is None:
            self._stop_deadline = time.monotonic() + STOP_SECONDS_MAX
        return time.monotonic() > self._stop_deadline

    def _on_message(self, lsn: int, payload: bytes) -> None:
        message = parse(payload)
        match message:
            case Insert() | Update() | Delete():
                self._on_change(message, lsn)
            case Begin():
                if lsn <= self._stream.acknowledged_lsn:
                    self._commit()
                self._open = message
            case Commit():
                self._on_commit(message)
            case Relation():
                is_wanted = TableName(message.schema, message.table) in self._settings.tables
                table = self._catalog.table(message, prefix=self._settings.prefix) if is_wanted else None
                self._tables[message.oid] = table
            case Truncate():
                self._on_truncate(message, lsn)
            case Type() | Origin():
                pass
            case _:
                assert_never(message)

    def _on_change(self, change: Change, lsn: int) -> None:
        table = self._tables[change.relation_oid]
        if table is None:
            return
        self._change_count += 1
        for record in self._envelopes.changes(table, change, self._place(lsn)):
            self._writer.write(record)

    def _on_truncate(self, truncate: Truncate, lsn: int) -> None:
        for oid in truncate.relation_oids:
            table = self._tables[oid]
            if table is not None:
                self._change_count += 1
                # Each partition's order tells which of its rows came before.
                self._writer.write_to_each_partition(self._envelopes.truncation(table, self._place(lsn)))

    def _place(self, lsn: int) -> Place:
        begin = self._open
        assert begin is not None, "changes come between Begin and Commit"
        return Place(
            lsn=lsn,
            committed_ms=begin.committed_us // 1000,
            transaction_id=begin.transaction_id,
            last_commit_lsn=self._last_commit_lsn,
        )

    def _on_commit(self, commit: Commit) -> None:
        self._open = None
        self._whole_lsn = self._last_commit_lsn = commit.end_lsn
        if self._writer.written_count >= RECORDS_PER_COMMIT_MAX or time.monotonic() >= self._commit_due:
            self._commit()

    def _commit(self) -> None:
        """What is whole goes out, then PostgreSQL may forget it."""
        invariant(self._open is None, "a Kafka transaction holds whole transactions")
        lsn, self._whole_lsn = self._whole_lsn, 0
        if lsn:
            if self._writer.written_count:
                self._writer.commit(lsn)
            self._stream.acknowledge(lsn)
        self._on_pause(self._change_count, lsn)
        self._change_count = 0
        self._commit_due = time.monotonic() + SECONDS_PER_COMMIT_MAX
