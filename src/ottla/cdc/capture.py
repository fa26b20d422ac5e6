"""The capture as a process: opens everything, takes the snapshot where none was completed, streams, and starts again
after a lost connection. Every start is the same: fence older captures, read the position, go on from it.

No position means that no snapshot was completed: a slot that is there belongs to one that was cut off, whose records
were never committed, so it is dropped and all begins again. A position without its slot is a gap, and is refused.
"""

import threading
import time
from contextlib import closing
from dataclasses import dataclass
from typing import Final, Protocol

import psycopg2
import psycopg2.errors

from ottla.cdc.catalog import Catalog
from ottla.cdc.connection import connect, explained
from ottla.cdc.envelope import Envelopes, Place
from ottla.cdc.errors import CaptureError
from ottla.cdc.lsn import lsn_text
from ottla.cdc.positions import has_positions, read_position
from ottla.cdc.session import Connections, Session
from ottla.cdc.settings import CaptureSettings
from ottla.cdc.slot import SlotAdmin, SlotState
from ottla.cdc.snapshot import snapshot_rows
from ottla.cdc.stream import ChangeStream
from ottla.cdc.topic_writer import TopicWriter, create_topics
from ottla.client.errors import ClientError

BACK_OFF_S_MIN: Final = 0.5
BACK_OFF_S_MAX: Final = 30.0
PROGRESS_INTERVAL_S: Final = 1.0
SNAPSHOT_PROGRESS_ROWS: Final = 10_000
# Not tried again: two captures of a name would take turns in fencing each other.
FENCED: Final = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    change_count: int
    """Since this process began, rows of the snapshot included."""
    lsn: int
    lag_bytes: int


class Observer(Protocol):
    def on_event(self, text: str) -> None: ...

    def on_progress(self, progress: Progress) -> None: ...


class Capture:
    def __init__(self, settings: CaptureSettings, *, observer: Observer, stopping: threading.Event) -> None:
        self._settings = settings
        self._observer = observer
        self._stopping = stopping
        self._has_streamed = False
        self._back_off_s = BACK_OFF_S_MIN
        self._change_count = 0
        self._lsn = 0
        self._progress_due = 0.0

    def run(self) -> None:
        """Until `stopping` is set. What cannot be helped by trying again is raised, and so is a first failure."""
        while not self._stopping.is_set():
            try:
                with explained("capturing"):
                    self._run_once()
            except (psycopg2.Error, ClientError) as error:
                if isinstance(error, ClientError) and error.code in FENCED:
                    raise CaptureError(f"another capture named {self._settings.name} has taken over") from error
                if not self._has_streamed and not isinstance(error, psycopg2.errors.ObjectInUse):
                    raise
                self._observer.on_event(f"trying again in {self._back_off_s:g} s: {str(error).strip()}")
                self._stopping.wait(self._back_off_s)
                self._back_off_s = min(2 * self._back_off_s, BACK_OFF_S_MAX)

    def _run_once(self) -> None:
        settings = self._settings
        with (
            closing(connect(settings.dsn)) as connection,
            closing(ChangeStream(settings)) as stream,
            closing(TopicWriter(settings)) as writer,
        ):
            slots = SlotAdmin(connection, settings)
            slots.check_server()
            slots.ensure_publication()
            create_topics(settings)
            writer.fence()
            catalog = Catalog(connection)
            envelopes = Envelopes(name=settings.prefix, database=catalog.database, clock_ms=now_ms)
            opened = Connections(stream=stream, writer=writer, catalog=catalog, envelopes=envelopes)
            position = self._position(slots, opened)
            if position is None:
                return
            stream.start(position)
            self._lsn, self._has_streamed, self._back_off_s = position, True, BACK_OFF_S_MIN
            self._observer.on_event(f"streaming from {lsn_text(position)} on")

            def on_pause(change_count: int, lsn: int) -> None:
                self._change_count += change_count
                self._lsn = lsn or self._lsn
                self._maybe_report(slots)

            Session(opened, settings, stopping=self._stopping, on_pause=on_pause).run()

    def _position(self, slots: SlotAdmin, opened: Connections) -> int | None:
        """Where to stream from; None where a stop came first."""
        position = read_position(self._settings)
        if position is None:
            return self._take_snapshot(slots, opened)
        state = slots.state()
        if state is None or state.is_lost:
            raise CaptureError(
                f"the slot {self._settings.slot} is gone, and with it the changes behind {lsn_text(position)}. "
                "`ottla cdc drop`, delete the topics, and run again for a new snapshot"
            )
        return position

    def _take_snapshot(self, slots: SlotAdmin, opened: Connections) -> int | None:
        """All rows and the position in one transaction, so that nobody ever sees a part."""
        if slots.drop_slot():
            self._observer.on_event("a snapshot was cut off before its end: it begins again")
        slot = opened.stream.create_slot()
        self._observer.on_event(f"snapshot at {lsn_text(slot.consistent_lsn)}")
        place = Place(lsn=slot.consistent_lsn, committed_ms=now_ms())
        for table, row in snapshot_rows(self._settings, slot.snapshot_name):
            opened.writer.write(opened.envelopes.row(table, row, place))
            if opened.writer.written_count % SNAPSHOT_PROGRESS_ROWS == 0:
                if self._stopping.is_set():
                    return None
                self._maybe_report(slots, uncommitted_count=opened.writer.written_count)
        row_count = opened.writer.written_count
        opened.writer.commit(slot.consistent_lsn)
        self._change_count += row_count
        self._observer.on_event(f"snapshot complete: {row_count:,} rows")
        return slot.consistent_lsn

    def _maybe_report(self, slots: SlotAdmin, *, uncommitted_count: int = 0) -> bool:
        if time.monotonic() < self._progress_due:
            return False
        self._progress_due = time.monotonic() + PROGRESS_INTERVAL_S
        state = slots.state()
        lag_bytes = 0 if state is None else state.lag_bytes
        count = self._change_count + uncommitted_count
        self._observer.on_progress(Progress(change_count=count, lsn=self._lsn, lag_bytes=lag_bytes))
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureStatus:
    position: int | None
    """None before the first snapshot is complete."""
    slot: SlotState | None


def capture_status(settings: CaptureSettings) -> CaptureStatus:
    with closing(connect(settings.dsn)) as connection:
        slot = SlotAdmin(connection, settings).state()
    return CaptureStatus(position=read_position(settings) if has_positions(settings) else None, slot=slot)


def drop_capture(settings: CaptureSettings) -> None:
    """The slot first: it is what fills a disk. The topics stay."""
    with closing(connect(settings.dsn)) as connection:
        slots = SlotAdmin(connection, settings)
        slots.drop_slot()
        slots.drop_publication()
    if has_positions(settings):
        with closing(TopicWriter(settings)) as writer:
            writer.fence()
            writer.commit(None)


def now_ms() -> int:
    return time.time_ns() // 1_000_000
