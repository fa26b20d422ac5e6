"""Captures for tests: in a thread or as a process to be killed, and readers of what they write."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ottla.cdc.capture import Capture, Progress
from ottla.cdc.settings import CaptureSettings, settings_of
from ottla.cdc.topic_writer import create_topics
from ottla.client import Consumer, ConsumerRecord
from tests.postgres import Database

SECONDS_MAX = 60.0
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    database: Database
    settings: CaptureSettings

    def execute(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return self.database.execute(statement, *values)

    def as_role(self, role: str) -> "Source":
        dsn = self.settings.dsn.replace("postgres@", f"{role}@")
        return replace(self, settings=replace(self.settings, dsn=dsn))

    def with_tables(self, *tables: str) -> "Source":
        document = document_of(self.settings)
        document["postgres"]["tables"] = list(tables)
        return replace(self, settings=settings_of(document))


@contextmanager
def captured_database(database: Database, bootstrap_servers: str, *, partitions: int = 1) -> Iterator[Source]:
    """The table `orders` and a capture of it. PostgreSQL has few slots: in the end the capture's is dropped."""
    database.execute("CREATE TABLE orders (id bigint PRIMARY KEY, note text, amount numeric(12, 2))")
    name = f"capture-{os.getpid()}-{next(_numbers)}"
    document = {
        "name": name,
        "bootstrapServers": bootstrap_servers,
        "postgres": {"dsn": database.url, "tables": ["public.orders"]},
        "topics": {"compacted": True, "partitions": partitions},
    }
    source = Source(database=database, settings=settings_of(document))
    try:
        yield source
    finally:
        source.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s AND NOT active",
            source.settings.slot,
        )


def document_of(settings: CaptureSettings) -> dict[str, Any]:
    return {
        "name": settings.name,
        "bootstrapServers": settings.bootstrap_servers,
        "postgres": {"dsn": settings.dsn, "tables": [str(table) for table in settings.tables]},
        "topics": {"compacted": settings.is_compacted, "partitions": settings.partition_count},
    }


@dataclass(slots=True)
class RunningCapture:
    """What a capture in a thread has told, and how it ended."""

    stopping: threading.Event = field(default_factory=threading.Event)
    streaming: threading.Event = field(default_factory=threading.Event)
    events: list[str] = field(default_factory=list)
    failure: Exception | None = None
    thread: threading.Thread | None = None

    def on_event(self, text: str) -> None:
        self.events.append(text)
        if text.startswith("streaming"):
            self.streaming.set()

    def on_progress(self, progress: Progress) -> None:
        pass

    def has_ended(self, *, within_s: float = SECONDS_MAX) -> bool:
        assert self.thread is not None
        self.thread.join(within_s)
        return not self.thread.is_alive()


@contextmanager
def capturing(source: Source, *, wait_streaming: bool = True) -> Iterator[RunningCapture]:
    """Behind its snapshot, or failed, when the block begins; ends with it. A failure of the capture is the block's."""
    running = RunningCapture()

    def run() -> None:
        try:
            Capture(source.settings, observer=running, stopping=running.stopping).run()
        except Exception as error:
            running.failure = error

    running.thread = threading.Thread(target=run, name="capture", daemon=True)
    running.thread.start()
    while wait_streaming and running.thread.is_alive() and not running.streaming.wait(0.05):
        pass
    try:
        yield running
    finally:
        running.stopping.set()
        assert running.has_ended()
    if running.failure is not None:
        raise running.failure


class CaptureProcess:
    """`ottla cdc run FILE`, to be ended by signals."""

    def __init__(self, source: Source, directory: Path) -> None:
        self.file = directory / f"{source.settings.name}.yaml"
        self.file.write_text(json.dumps(document_of(source.settings)))  # JSON is YAML, too.
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> "CaptureProcess":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def start(self) -> None:
        command = [sys.executable, "-m", "ottla.cli.main", "cdc", "run", str(self.file)]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> tuple[int, str]:
        """SIGTERM; its exit code and what it wrote to standard error."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> tuple[int, str]:
        assert self._process is not None
        self._process.send_signal(how)
        _, told = self._process.communicate(timeout=SECONDS_MAX)
        return self._process.returncode, told


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A record of a topic of changes."""

    key: Any
    value: Any

    @classmethod
    def of(cls, record: ConsumerRecord) -> "Event":
        return cls(key=json.loads(record.key), value=None if record.value is None else json.loads(record.value))

    @property
    def op(self) -> str | None:
        """None for a tombstone."""
        return None if self.value is None else str(self.value["op"])

    @property
    def after(self) -> Any:
        return None if self.value is None else self.value["after"]


class TopicReader:
    """The committed records of a topic with one partition, in order, from its start."""

    def __init__(self, source: Source) -> None:
        self.events: list[Event] = []
        self._consumer = Consumer(
            bootstrap_servers=source.settings.bootstrap_servers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        )
        self._topic = source.settings.topics[0]
        create_topics(source.settings)
        self._consumer.assign([(self._topic, 0)])

    def __enter__(self) -> "TopicReader":
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def until(self, condition: Callable[[Event], bool]) -> list[Event]:
        """Everything so far, once there is a record that the condition holds for."""
        deadline = time.monotonic() + SECONDS_MAX
        arrived = self.events
        while not any(map(condition, arrived)):
            if time.monotonic() > deadline:
                raise AssertionError(f"not in {self._topic}; its last records: {self.events[-5:]}")
            arrived = [Event.of(record) for record in self._consumer.poll(200)]
            self.events += arrived
        return self.events

    def until_row(self, row_id: int) -> list[Event]:
        """Until the row with this id was inserted, or read by a snapshot."""
        return self.until(lambda event: event.after is not None and event.after["id"] == row_id and event.op != "u")


def table_of(events: list[Event]) -> dict[Any, Any]:
    """Rows by id as a reader has them who applies every record in order."""
    rows: dict[Any, Any] = {}
    for event in events:
        if event.op == "t":
            rows.clear()
        elif event.after is None:
            rows.pop(event.key["id"], None)
        else:
            rows[event.key["id"]] = event.after
    return rows
