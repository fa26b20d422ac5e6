"""The exactly-once protocol against a broker, without Spark: every row once, whoever dies when."""

from collections import Counter

import pytest

from ottla.client import Admin, ClientError
from ottla.spark.decisions import transactional_prefix
from ottla.spark.exactly_once import DecidedTransactionLost, TransactionLost
from ottla.spark.task_transactions import Superseded
from ottla.testing import Broker
from tests.spark.crashing_sink import Crash, CrashPoint
from tests.unit.spark.query_runs import PARTITIONS, TASKS, Driver, Query, rows_of


@pytest.fixture
def query(ottla_broker: Broker, ottla_topic: str) -> Query:
    with Admin(bootstrap_servers=ottla_broker.bootstrap_servers) as admin:
        admin.create_topic(ottla_topic, PARTITIONS)
    return Query(ottla_broker, ottla_topic)


def test_rows_are_seen_when_their_micro_batch_is_committed(query: Query) -> None:
    driver = Driver(query)
    prepared = driver.tasks(0)
    assert query.committed() == Counter()
    driver.writer.commit(prepared, 0)
    assert query.committed() == rows_of(0)
    driver.batch(1)
    assert query.committed() == rows_of(0, 1)


@pytest.mark.parametrize("is_killed", [True, False])
@pytest.mark.parametrize("point", CrashPoint)
def test_a_driver_that_dies_is_followed_by_one_that_writes_each_row_once(
    query: Query, point: CrashPoint, is_killed: bool
) -> None:
    """Killed, or by an exception after which Spark calls `abort`."""
    Driver(query).batch(0)
    dying = Driver(query, point)
    if is_killed:
        prepared = dying.tasks(1)
        with pytest.raises(Crash):
            dying.writer.commit(prepared, 1)
    else:
        with pytest.raises(Crash):
            dying.batch(1)
    following = Driver(query)
    following.batch(1)
    following.batch(2)
    assert query.committed() == rows_of(0, 1, 2)


def test_tasks_that_die_leave_nothing_behind_a_new_run(query: Query) -> None:
    dying = Driver(query)
    dying.batch(0)
    dying.tasks(1)
    dying.task(1, partition=TASKS)  # A place that the next run has no task for.
    prefix = transactional_prefix(query.query_id)
    assert len(dying.connections.transactions.open_handles(prefix)) == TASKS + 1
    following = Driver(query)
    following.task(1, partition=0)
    assert len(following.connections.transactions.open_handles(prefix)) == 1
    following.batch(1)
    assert query.committed() == rows_of(0, 1)


def test_a_second_attempt_does_not_disturb_the_first(query: Query) -> None:
    driver = Driver(query)
    prepared = driver.tasks(0)
    late = driver.task(0, partition=1, attempt=1)
    driver.writer.commit(prepared, 0)
    driver.writer.abort([late, None], 0)
    driver.batch(1)
    assert query.committed() == rows_of(0, 1)


def test_of_two_drivers_the_newer_goes_on_and_the_older_is_told(query: Query) -> None:
    older, newer = Driver(query), Driver(query)
    older.batch(0)
    prepared = older.tasks(1)
    newer.batch(1)
    decider = transactional_prefix(query.query_id) + "decision"
    before = newer.connections.transactions.describe(decider)
    with pytest.raises(Superseded, match="two drivers use one checkpoint"):
        older.writer.commit(prepared, 1)
    older.writer.abort(prepared, 1)
    assert newer.connections.transactions.describe(decider) == before  # An update of the newer would not be fenced.
    with pytest.raises(Superseded):
        older.task(2, partition=0)
    newer.batch(2)
    assert query.committed() == rows_of(0, 1, 2)


def test_a_task_that_slept_cannot_abort_what_was_written_since(query: Query) -> None:
    """It looked before the others wrote and goes on after: it must not take their transactional id over."""
    driver = Driver(query)
    driver.batch(0)
    transactions = driver.connections.transactions
    place = f"{transactional_prefix(query.query_id)}0-0"
    seen = transactions.describe(place)
    assert seen is not None
    prepared = driver.tasks(1)
    with pytest.raises(ClientError, match="PRODUCER_FENCED"):
        transactions.begin(place, timeout_ms=60_000, seen=seen.identity)
    driver.writer.commit(prepared, 1)
    assert query.committed() == rows_of(0, 1)


def test_a_micro_batch_whose_transaction_is_gone_is_not_decided(query: Query) -> None:
    driver = Driver(query)
    prepared = driver.tasks(0)
    assert prepared[1].handle is not None
    driver.connections.transactions.end(prepared[1].handle, is_commit=False)  # As a time-out does.
    with pytest.raises(TransactionLost, match="micro-batch 0 is not decided"):
        driver.writer.commit(prepared, 0)
    driver.writer.abort(prepared, 0)
    Driver(query).batch(0)
    assert query.committed() == rows_of(0)


def test_a_decided_transaction_that_is_gone_is_told_and_never_passed_over(query: Query) -> None:
    dying = Driver(query, CrashPoint.AFTER_DECISION)
    prepared = dying.tasks(0)
    with pytest.raises(Crash):
        dying.writer.commit(prepared, 0)
    assert prepared[1].handle is not None
    dying.connections.transactions.end(prepared[1].handle, is_commit=False)
    for _ in range(2):
        with pytest.raises(DecidedTransactionLost, match=r"1 of its 3 transactions.*guarantee=atLeastOnce"):
            Driver(query).batch(0)


def test_a_micro_batch_without_rows_needs_no_decision(query: Query) -> None:
    driver = Driver(query)
    driver.batch(0)
    empty = [driver.task(1, partition, rows=0) for partition in range(TASKS)]
    assert [one.handle for one in empty] == [None] * TASKS
    driver.writer.commit(empty, 1)
    driver.batch(2)
    assert query.committed() == rows_of(0, 2)


def test_a_query_uses_the_same_transactional_ids_for_ever(query: Query) -> None:
    driver = Driver(query)
    with Admin(bootstrap_servers=query.broker.bootstrap_servers) as admin:
        used = []
        for batch_id in range(6):
            driver.batch(batch_id)
            listed = [one.transactional_id for one in admin.list_transactions()]
            used.append({one for one in listed if one.startswith(transactional_prefix(query.query_id))})
    assert all(ids == used[0] for ids in used)
    assert len(used[0]) == TASKS + 1  # One for each place, one for the decisions.
