"""When a session commits, and what it has told PostgreSQL by then."""

import threading
from typing import Any

from ottla.cdc.envelope import Envelopes, Record
from ottla.cdc.pgoutput import Relation
from ottla.cdc.session import Connections, Session
from ottla.cdc.settings import settings_of
from ottla.cdc.table import Table
from tests.unit.cdc import messages
from tests.unit.cdc.messages import row, text

ORDERS = messages.relation(7, "public", "orders", "d", ("id", 20, -1))
OTHERS = messages.relation(8, "public", "others", "d", ("id", 20, -1))
SETTINGS = settings_of(
    {"name": "shop", "bootstrapServers": "b:1", "postgres": {"dsn": "dbname=d", "tables": ["public.orders"]}}
)


class World:
    """A stream that was recorded, a writer that remembers, and the order of what they were told."""

    def __init__(self, *recorded: tuple[int, bytes], stop_after: int) -> None:
        self._recorded = list(recorded)
        self._stop_after = stop_after
        self.stopping = threading.Event()
        self.history: list[tuple[str, Any]] = []
        self.acknowledged_lsn = 0
        self.written_count = 0

    def read(self) -> tuple[int, bytes] | None:
        self._stop_after -= 1
        if self._stop_after <= 0:
            self.stopping.set()
        return self._recorded.pop(0) if self._recorded else None

    def wait(self, timeout_s: float) -> None:
        pass

    def acknowledge(self, lsn: int) -> None:
        self.history.append(("acknowledge", lsn))
        self.acknowledged_lsn = lsn

    def write(self, record: Record) -> None:
        self.history.append(("write", record.key.decode()))
        self.written_count += 1

    def write_to_each_partition(self, record: Record) -> None:
        self.write(record)

    def commit(self, lsn: int) -> None:
        self.history.append(("commit", lsn))
        self.written_count = 0

    def table(self, relation: Relation, *, prefix: str) -> Table:
        return Table.of(relation, prefix=prefix, primary_key=["id"], derived={})


def ran(*recorded: tuple[int, bytes], stop_after: int = 100) -> list[tuple[str, Any]]:
    """Until a stop, which comes after so many messages (or as many looks at the end of the stream)."""
    world: Any = World(*recorded, stop_after=stop_after)
    envelopes = Envelopes(name="shop", database="d", clock_ms=lambda: 0)
    connections = Connections(stream=world, writer=world, catalog=world, envelopes=envelopes)
    Session(connections, SETTINGS, stopping=world.stopping, on_pause=lambda changes, lsn: None).run()
    history: list[tuple[str, Any]] = world.history
    return history


def transaction(start_lsn: int, end_lsn: int, *changes: bytes) -> list[tuple[int, bytes]]:
    return [
        (start_lsn, messages.begin(end_lsn - 1, 0, 5)),
        *((start_lsn, change) for change in changes),
        (end_lsn, messages.commit(end_lsn - 1, end_lsn, 0)),
    ]


def inserted(row_id: int, oid: int = 7) -> bytes:
    return messages.insert(oid, row(text(str(row_id))))


def test_postgresql_is_told_after_kafka_has_committed() -> None:
    assert ran(*transaction(90, 100, ORDERS, inserted(1))) == [
        ("write", '{"id":1}'),
        ("commit", 100),
        ("acknowledge", 100),
    ]


def test_transactions_that_follow_at_once_share_a_commit() -> None:
    first = transaction(90, 100, ORDERS, inserted(1))
    assert ran(*first, *transaction(110, 120, inserted(2)), *transaction(130, 140, inserted(3)))[3:] == [
        ("write", '{"id":2}'),
        ("write", '{"id":3}'),
        ("commit", 140),
        ("acknowledge", 140),
    ]


def test_before_a_transaction_that_began_before_the_acknowledged_position_all_others_are_committed() -> None:
    """Or psycopg2 would acknowledge them by itself at the next keep-alive."""
    first = transaction(90, 100, ORDERS, inserted(1))
    assert ran(*first, *transaction(110, 120, inserted(2)), *transaction(50, 140, inserted(3)))[3:] == [
        ("write", '{"id":2}'),
        ("commit", 120),
        ("acknowledge", 120),
        ("write", '{"id":3}'),
        ("commit", 140),
        ("acknowledge", 140),
    ]


def test_transactions_without_a_change_of_ours_are_acknowledged_without_a_commit() -> None:
    assert ran(*transaction(90, 100), *transaction(110, 120, OTHERS, inserted(1, oid=8))) == [
        ("acknowledge", 100),
        ("acknowledge", 120),
    ]


def test_a_truncation_is_written() -> None:
    assert ran(*transaction(90, 100, ORDERS, messages.truncate(7)))[:2] == [("write", "{}"), ("commit", 100)]


def test_a_stop_within_a_transaction_waits_for_its_commit_and_reads_no_more() -> None:
    first, second = transaction(90, 100, ORDERS, inserted(1), inserted(2)), transaction(110, 120, inserted(3))
    assert ran(*first, *second, stop_after=3) == [
        ("write", '{"id":1}'),
        ("write", '{"id":2}'),
        ("commit", 100),
        ("acknowledge", 100),
    ]
