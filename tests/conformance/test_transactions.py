"""Transactions by real clients: what readers see, when they see it, and who is fenced off (scenes 34 and 35)."""

import re
from collections.abc import Callable

import pytest

from tests.conformance.client import Client, ClientError, Record
from tests.conformance.error_codes import INVALID_TRANSACTION_TIMEOUT, UNKNOWN_SERVER_ERROR
from tests.conformance.groups import new_group
from tests.conformance.raw_requests import producer_epochs
from tests.conformance.registry import Can, clients_that
from tests.conformance.transactions import (
    FENCED,
    Transactional,
    committed_values,
    last_stable_offset,
    new_transactional_id,
    sees_nothing,
    uncommitted_values,
    values,
)
from tests.conformance.under_test import BrokerUnderTest, Keeper
from tests.conformance.waiting import eventually

Open = Callable[..., Transactional]

ROUNDS = 12
TIME_OUT_MS = 1500
TIME_OUT_WAIT_S = 20
DAY_MS = 86_400_000
EPOCH_MAX = 32_766  # The greatest that a producer is given: one more is left for fencing it.


@pytest.fixture
def orders(keeper: Keeper, topic_name: str) -> str:
    """Two partitions, a plain record in each."""
    keeper.create(topic_name, partitions=2)
    for partition in (0, 1):
        keeper.produce(topic_name, [Record(value=b"before", partition=partition)])
    return topic_name


@pytest.fixture
def inventory(keeper: Keeper, orders: str) -> str:
    keeper.create(f"{orders}-inventory")
    return f"{orders}-inventory"


@clients_that(Can.TRANSACT)
def test_scene_34_all_of_a_transaction_appears_at_its_commit(
    client: Client, keeper: Keeper, transactional: Open, orders: str, inventory: str
) -> None:
    reader = keeper.client
    producer = transactional(client)
    producer.begin()
    [first, _] = producer.write(orders, b"order-1", b"order-2", partition=0)
    producer.write(orders, b"order-3", partition=1)
    producer.write(inventory, b"less")

    assert first.offset == 1
    assert uncommitted_values(reader, orders, count=3) == [b"before", b"order-1", b"order-2"]
    assert committed_values(reader, orders, count=1) == [b"before"]
    assert sees_nothing(reader, orders, offset=1)
    assert [last_stable_offset(reader, orders, partition) for partition in (0, 1)] == [1, 1]
    assert last_stable_offset(reader, inventory) == 0

    producer.commit()
    assert committed_values(reader, orders, count=3) == [b"before", b"order-1", b"order-2"]
    assert committed_values(reader, orders, count=2, partition=1) == [b"before", b"order-3"]
    assert committed_values(reader, inventory, count=1) == [b"less"]
    assert last_stable_offset(reader, orders) == reader.locate(orders, "latest").offset == 4  # With the marker.


@clients_that(Can.TRANSACT)
def test_scene_34_nothing_of_an_aborted_transaction_is_ever_read(
    client: Client, keeper: Keeper, transactional: Open, orders: str, inventory: str
) -> None:
    reader = keeper.client
    producer = transactional(client)
    producer.begin()
    producer.write(orders, b"order-1", partition=1)
    producer.write(inventory, b"less")
    producer.abort()
    for topic, partition in ((orders, 1), (inventory, 0)):
        keeper.produce(topic, [Record(value=b"after", partition=partition)])
    assert committed_values(reader, orders, count=2, partition=1) == [b"before", b"after"]
    assert committed_values(reader, inventory, count=1) == [b"after"]
    assert uncommitted_values(reader, inventory, count=2) == [b"less", b"after"]
    assert last_stable_offset(reader, inventory) == 3


@clients_that(Can.TRANSACT)
def test_one_producer_commits_and_aborts_in_turn(
    client: Client, keeper: Keeper, transactional: Open, topic: str
) -> None:
    producer = transactional(client)
    for number in range(ROUNDS):
        producer.begin()
        producer.write(topic, *values(str(number), 3))
        producer.abort() if number % 3 == 1 else producer.commit()
    expected = [value for number in range(ROUNDS) if number % 3 != 1 for value in values(str(number), 3)]
    assert committed_values(keeper.client, topic, count=len(expected)) == expected
    assert last_stable_offset(keeper.client, topic) == ROUNDS * 4


@clients_that(Can.TRANSACT)
def test_an_empty_transaction_leaves_no_trace(client: Client, keeper: Keeper, transactional: Open, topic: str) -> None:
    producer = transactional(client)
    producer.begin()
    producer.commit()
    producer.begin()
    producer.abort()
    assert keeper.locate(topic, "latest").offset == 0
    producer.begin()
    producer.write(topic, b"only")
    producer.commit()
    assert committed_values(keeper.client, topic, count=1) == [b"only"]
    assert keeper.locate(topic, "latest").offset == 2


@clients_that(Can.TRANSACT)
def test_a_later_commit_stays_unread_behind_an_earlier_open_transaction(
    client: Client, keeper: Keeper, transactional: Open, topic: str
) -> None:
    early, late = transactional(client), transactional(client)
    early.begin()
    early.write(topic, b"early")
    late.begin()
    late.write(topic, b"late")
    late.commit()
    assert last_stable_offset(keeper.client, topic) == 0
    assert sees_nothing(keeper.client, topic)
    early.commit()
    assert committed_values(keeper.client, topic, count=2) == [b"early", b"late"]


@clients_that(Can.READ)
def test_every_reader_passes_over_what_was_aborted(
    client: Client, keeper: Keeper, transactional: Open, topic: str
) -> None:
    """Interleaved transactions: batches of an aborted one lie between those of a committed one."""
    committing, aborting = transactional(keeper.client), transactional(keeper.client)
    expected = []
    for number in range(ROUNDS):
        for producer in (committing, aborting):
            producer.begin()
            producer.write(topic, b"%d first" % number)
        for producer in (aborting, committing):
            producer.write(topic, b"%d second" % number)
        aborting.abort()
        committing.commit()
        expected += [b"%d first" % number, b"%d second" % number]
    assert committed_values(client, topic, count=len(expected)) == expected


@clients_that(Can.JOIN_GROUPS)
def test_every_member_reads_what_was_committed(
    client: Client, keeper: Keeper, transactional: Open, topic: str, join: Callable[..., object]
) -> None:
    """By a client's own default: read_uncommitted for some, so only commits are written."""
    producer = transactional(keeper.client)
    for number in range(3):
        producer.begin()
        producer.write(topic, *values(str(number), 2))
        producer.commit()
    member = join(client, new_group(), topic, reset="earliest")
    expected = [value for number in range(3) for value in values(str(number), 2)]
    assert [read.value for read in member.read(len(expected))] == expected  # type: ignore[attr-defined]


@clients_that(Can.TRANSACT)
def test_scene_35_a_zombie_is_fenced_and_nothing_of_it_is_read(
    client: Client, keeper: Keeper, transactional: Open, topic: str
) -> None:
    zombie = transactional(client)
    zombie.begin()
    zombie.write(topic, b"zombie, before")
    successor = transactional(client, zombie.transactional_id)
    with pytest.raises(ClientError) as refused:
        zombie.write(topic, b"zombie, after")
        zombie.commit()
    assert refused.value.code in FENCED, refused.value
    successor.begin()
    successor.write(topic, b"successor")
    successor.commit()
    assert committed_values(keeper.client, topic, count=1) == [b"successor"]
    seen = uncommitted_values(keeper.client, topic, count=2)
    assert seen == [b"zombie, before", b"successor"]  # What came after the fence was not even written.


@clients_that(Can.TRANSACT)
def test_scene_35_a_zombies_commit_is_refused(client: Client, keeper: Keeper, transactional: Open, topic: str) -> None:
    zombie = transactional(client)
    zombie.begin()
    zombie.write(topic, b"zombie")
    transactional(client, zombie.transactional_id)
    with pytest.raises(ClientError) as refused:
        zombie.commit()
    assert refused.value.code in FENCED, refused.value
    keeper.produce(topic, [Record(value=b"after")])
    assert committed_values(keeper.client, topic, count=1) == [b"after"]


@clients_that(Can.TRANSACT)
def test_a_crashed_producers_transaction_ends_when_its_successor_starts(
    client: Client,
    keeper: Keeper,
    transactional: Open,
    topic: str,
    own_process: Callable[[str], Client],
) -> None:
    crashing = transactional(own_process(client.name))
    crashing.begin()
    crashing.write(topic, b"crashed")
    crashing.client.kill()
    successor = transactional(client, crashing.transactional_id)
    assert last_stable_offset(keeper.client, topic) == 2  # The record and the marker that aborts it.
    successor.begin()
    successor.write(topic, b"successor")
    successor.commit()
    assert committed_values(keeper.client, topic, count=1) == [b"successor"]


@clients_that(Can.TRANSACT)
def test_a_transaction_that_takes_too_long_is_aborted(
    client: Client, keeper: Keeper, transactional: Open, topic: str
) -> None:
    slow = transactional(client, timeout_ms=TIME_OUT_MS)
    slow.begin()
    slow.write(topic, b"slow")

    def aborted() -> None:
        assert last_stable_offset(keeper.client, topic) == 2

    eventually(aborted, wait_s=TIME_OUT_WAIT_S)
    with pytest.raises(ClientError):
        slow.commit()
    keeper.produce(topic, [Record(value=b"after")])
    assert committed_values(keeper.client, topic, count=1) == [b"after"]


@clients_that(Can.TRANSACT)
def test_a_time_out_beyond_the_brokers_limit_is_refused(client: Client, transactional: Open) -> None:
    with pytest.raises(ClientError) as refused:
        transactional(client, timeout_ms=DAY_MS)
    # Some clients pass on the broker's words without its number.
    assert refused.value.code in (INVALID_TRANSACTION_TIMEOUT, UNKNOWN_SERVER_ERROR), refused.value
    assert re.search(r"transaction ?timeout", str(refused.value), re.IGNORECASE), refused.value


@clients_that(Can.TRANSACT)
def test_a_transaction_commits_what_is_left_when_a_topic_of_it_is_deleted(
    client: Client, keeper: Keeper, transactional: Open, orders: str, inventory: str
) -> None:
    producer = transactional(client)
    producer.begin()
    producer.write(orders, b"order-1")
    producer.write(inventory, b"less")
    keeper.delete(inventory)
    producer.commit()
    assert committed_values(keeper.client, orders, count=2) == [b"before", b"order-1"]
    producer.begin()
    producer.write(orders, b"order-2")
    producer.commit()
    assert committed_values(keeper.client, orders, count=3) == [b"before", b"order-1", b"order-2"]


@pytest.mark.parametrize("first", ["confluent-kafka", "java", "kafkajs"])
def test_one_transactional_id_passes_from_client_to_client(
    borrow: Callable[[str], Client], keeper: Keeper, transactional: Open, topic: str, first: str
) -> None:
    """Old and new versions of InitProducerId and EndTxn on one id: epochs go on, whoever bumps them."""
    transactional_id = new_transactional_id()
    others = [name for name in ("confluent-kafka", "java", "kafkajs") if name != first]
    expected = []
    for name in [first, *others, first]:
        producer = transactional(borrow(name), transactional_id)
        for number in range(2):
            producer.begin()
            producer.write(topic, f"{name} {number}".encode())
            producer.commit()
            expected.append(f"{name} {number}".encode())
    assert committed_values(keeper.client, topic, count=len(expected)) == expected


def test_a_new_producer_id_begins_when_the_epochs_run_out(
    broker: BrokerUnderTest, keeper: Keeper, transactional: Open, topic: str
) -> None:
    producer = transactional(keeper.client)
    given = producer_epochs(broker.bootstrap, producer.transactional_id, count=EPOCH_MAX + 34)
    first_id = given[0][0]
    assert [epoch for producer_id, epoch in given if producer_id == first_id] == list(range(1, EPOCH_MAX + 1))
    then = [pair for pair in given if pair[0] != first_id]
    assert then == [(then[0][0], epoch) for epoch in range(len(then))]
    assert then[0][0] > first_id
    successor = transactional(keeper.client, producer.transactional_id)
    successor.begin()
    successor.write(topic, b"value")
    successor.commit()
    assert committed_values(keeper.client, topic, count=1) == [b"value"]
