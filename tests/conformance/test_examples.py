"""The delivery semantics of scene 24, by the programs in `examples/`: each is ended like a crash between its two steps,
runs again, and what came out is counted. With scene 23 (resume after the commit), 36 (the offset commit gap) and 63
(poll 500, insert in bulk, commit).
"""

import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import ottla
from tests.conformance.under_test import BrokerUnderTest, Keeper

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
COUNT = 30
VALUES = [f"order-{number:04}" for number in range(1_200)]

RunExample = Callable[..., str]


@pytest.fixture
def admin(broker: BrokerUnderTest) -> ottla.Admin:
    return ottla.Admin(bootstrap_servers=broker.bootstrap)


@pytest.fixture
def orders(keeper: Keeper, broker: BrokerUnderTest, topic_name: str) -> Callable[[int], str]:
    def filled(count: int) -> str:
        keeper.create(topic_name)
        with ottla.Producer(bootstrap_servers=broker.bootstrap) as producer:
            for value in VALUES[:count]:
                producer.send(topic_name, value)
        return topic_name

    return filled


@pytest.fixture
def run(broker: BrokerUnderTest, tmp_path: Path) -> RunExample:
    def invoke(name: str, *arguments: object, exit_code: int = 0) -> str:
        program = [sys.executable, str(EXAMPLES / f"{name}.py"), "--bootstrap", broker.bootstrap]
        finished = subprocess.run(
            [*program, *map(str, arguments)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert finished.returncode == exit_code, finished.stderr
        return finished.stdout

    return invoke


def committed(admin: ottla.Admin, group: str, topic: str) -> int:
    position = admin.list_group_offsets(group).get(ottla.TopicPartition(topic, 0))
    return 0 if position is None else position.offset


def crash_and_go_on(run: RunExample, admin: ottla.Admin, name: str, topic: str, *options: object, count: int) -> str:
    """The program crashes after some records; what the group has not committed by then is left for its second run."""
    group = f"{name}-{topic}"
    common = ("--topic", topic, "--group", group, *options)
    run(name, *common, "--count", count, "--crash-after", 10, exit_code=1)
    left = count - committed(admin, group, topic)
    assert 0 < left < count
    told = run(name, *common, "--count", left)
    assert committed(admin, group, topic) >= count
    return told


def values_of(broker: BrokerUnderTest, topic: str, *, isolation_level: str) -> Counter[str]:
    with ottla.Consumer(
        bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", isolation_level=isolation_level
    ) as consumer:
        partitions = consumer.partitions_for(topic)
        consumer.assign(partitions)
        values: Counter[str] = Counter()
        while records := consumer.poll(timeout_ms=3_000):
            values.update(record.value.decode() for record in records)
        return values


def test_at_most_once_loses_and_never_repeats(
    run: RunExample, admin: ottla.Admin, orders: Callable[[int], str], tmp_path: Path
) -> None:
    crash_and_go_on(run, admin, "at_most_once", orders(COUNT), "--batch", 10, count=COUNT)
    seen = Counter((tmp_path / "seen.txt").read_text().split())
    assert seen.keys() < set(VALUES[:COUNT])
    assert set(seen.values()) == {1}


def test_at_least_once_repeats_and_never_loses(
    run: RunExample, admin: ottla.Admin, orders: Callable[[int], str], tmp_path: Path
) -> None:
    crash_and_go_on(run, admin, "at_least_once", orders(COUNT), "--batch", 10, count=COUNT)
    seen = Counter((tmp_path / "seen.txt").read_text().split())
    assert seen.keys() == set(VALUES[:COUNT])
    assert set(seen.values()) == {1, 2}


def test_exactly_once_does_neither(
    run: RunExample,
    admin: ottla.Admin,
    keeper: Keeper,
    broker: BrokerUnderTest,
    orders: Callable[[int], str],
) -> None:
    topic = orders(COUNT)
    invoices = f"{topic}-invoices"
    keeper.create(invoices)
    options = ("--batch", 10, "--to", invoices, "--transactional-id", f"{topic}-1")
    crash_and_go_on(run, admin, "exactly_once", topic, *options, count=COUNT)
    once = Counter(value.upper() for value in VALUES[:COUNT])
    assert values_of(broker, invoices, isolation_level="read_committed") == once
    assert values_of(broker, invoices, isolation_level="read_uncommitted") > once  # the crash had produced, too


def test_an_upsert_makes_a_repetition_harmless(
    run: RunExample, admin: ottla.Admin, orders: Callable[[int], str], tmp_path: Path
) -> None:
    told = crash_and_go_on(run, admin, "idempotent_consumer", orders(COUNT), "--batch", 10, count=COUNT)
    assert ", 0 of them" not in told
    rows = sqlite3.connect(tmp_path / "orders.db").execute("SELECT value FROM seen ORDER BY offset").fetchall()
    assert [value for (value,) in rows] == VALUES[:COUNT]


def test_a_bulk_insert_a_poll_and_no_row_twice(
    run: RunExample, admin: ottla.Admin, orders: Callable[[int], str], tmp_path: Path
) -> None:
    crash_and_go_on(run, admin, "bulk_insert", orders(len(VALUES)), count=len(VALUES))
    rows = sqlite3.connect(tmp_path / "orders.db").execute("SELECT value FROM orders ORDER BY offset").fetchall()
    assert [value.decode() for (value,) in rows] == VALUES


def test_a_group_goes_on_after_what_it_has_committed(
    run: RunExample, orders: Callable[[int], str], tmp_path: Path
) -> None:
    """Scene 23: three records are committed; the next one after the restart is the fourth."""
    topic = orders(6)
    common = ("--topic", topic, "--group", f"resume-{topic}", "--batch", 3)
    run("at_least_once", *common, "--count", 3)
    run("at_least_once", *common, "--count", 3, "--crash-after", 0, exit_code=1)  # D again: it was not committed
    run("at_least_once", *common, "--count", 3)
    seen = (tmp_path / "seen.txt").read_text().split()
    assert seen[:4] == VALUES[:4]
    assert seen[-3:] == VALUES[3:6]
    assert Counter(seen)[VALUES[3]] == 2
