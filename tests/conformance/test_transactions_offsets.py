"""Offsets in transactions: consume-transform-produce, pending offsets, and fencing by the group (KIP-447)."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.client import Client, ClientError, Record
from tests.conformance.error_codes import UNSTABLE_OFFSET_COMMIT
from tests.conformance.groups import Member, committed, new_group, settled
from tests.conformance.registry import Can, clients_that
from tests.conformance.transactions import Transactional, committed_values, values
from tests.conformance.under_test import Keeper
from tests.conformance.waiting import eventually

Open = Callable[..., Transactional]
Join = Callable[..., Member]

MEMBER = {"reset": "earliest", "auto_commit": False}
COUNT = 20


def stable_offset(admin: Client, group: str, topic: str, partition: int) -> int:
    return int(admin.call("fetch_offset", group=group, topic=topic, partition=partition, require_stable=True))


def plain_offset(admin: Client, group: str, topic: str, partition: int) -> int:
    return int(admin.call("fetch_offset", group=group, topic=topic, partition=partition, require_stable=False))


@pytest.fixture
def source(keeper: Keeper, topic_name: str) -> str:
    keeper.create(topic_name, partitions=2)
    return topic_name


@pytest.fixture
def target(keeper: Keeper, source: str) -> str:
    keeper.create(f"{source}-target")
    return f"{source}-target"


@clients_that(Can.TRANSACT)
def test_offsets_count_from_the_commit_of_their_transaction(
    client: Client, keeper: Keeper, transactional: Open, source: str, target: str
) -> None:
    group = new_group()
    producer = transactional(client)
    producer.begin()
    producer.send_offsets(group, source, {0: 5, 1: 7})
    producer.write(target, b"transformed")
    assert [plain_offset(keeper.client, group, source, partition) for partition in (0, 1)] == [-1, -1]
    producer.commit()
    assert committed(keeper.client, group, source, (0, 1)) == {0: 5, 1: 7}

    producer.begin()
    producer.send_offsets(group, source, {0: 11})
    producer.abort()
    assert committed(keeper.client, group, source, (0, 1)) == {0: 5, 1: 7}

    producer.begin()  # Offsets alone, no record.
    producer.send_offsets(group, source, {0: 6})
    producer.commit()
    assert committed(keeper.client, group, source, (0, 1)) == {0: 6, 1: 7}


@clients_that(Can.TRANSACT)
def test_a_reader_that_wants_stable_offsets_is_told_to_wait(
    client: Client, keeper: Keeper, transactional: Open, source: str
) -> None:
    group = new_group()
    admin = keeper.client
    producer = transactional(client)
    for offset, commits in ((5, True), (9, False)):
        producer.begin()
        producer.send_offsets(group, source, {0: offset})
        with pytest.raises(ClientError) as refused:
            stable_offset(admin, group, source, 0)
        assert refused.value.code == UNSTABLE_OFFSET_COMMIT
        assert stable_offset(admin, group, source, 1) == -1  # The other one is stable.
        producer.commit() if commits else producer.abort()
        assert eventually(lambda: stable_offset(admin, group, source, 0)) == 5  # The marker comes a moment later.


@clients_that(Can.TRANSACT)
def test_a_plain_commit_and_a_transactional_one_of_one_partition(
    client: Client, keeper: Keeper, transactional: Open, source: str
) -> None:
    """The later of the two writes in the log counts, though the earlier one takes effect after it."""
    group = new_group()
    producer = transactional(client)
    producer.begin()
    producer.send_offsets(group, source, {0: 5})
    plain = [{"topic": source, "partition": 0, "offset": 3}]
    keeper.client.call("commit_alone", group=group, offsets=plain)
    assert plain_offset(keeper.client, group, source, 0) == 3
    producer.commit()
    assert committed(keeper.client, group, source)[0] == 3


@clients_that(Can.TRANSACT, Can.SEND_GROUP_METADATA)
def test_consume_transform_produce(
    client: Client, keeper: Keeper, transactional: Open, join: Join, source: str, target: str
) -> None:
    """Half of the transactions abort; the records are then read and transformed once more."""
    keeper.produce(
        source, [Record(value=value, partition=number % 2) for number, value in enumerate(values("in", COUNT))]
    )
    group = new_group()
    member = join(client, group, source, **MEMBER)
    settled([member], partitions=2)
    read = member.read(COUNT)
    producer = transactional(client)
    for commits in (False, True):
        producer.begin()
        producer.write(target, *[record.value.upper() for record in read if record.value is not None])
        producer.send_offsets(group, source, {0: COUNT // 2, 1: COUNT // 2}, member=member.name)
        producer.commit() if commits else producer.abort()
        expected = COUNT // 2 if commits else -1
        assert committed(keeper.client, group, source, (0, 1)) == {0: expected, 1: expected}
    keeper.produce(target, [Record(value=b"end")])
    found = committed_values(keeper.client, target, count=COUNT + 1)
    assert sorted(value for value in found if value != b"end") == sorted(value.upper() for value in values("in", COUNT))
    assert found[-1] == b"end"


@pytest.mark.parametrize(
    "stale",
    [{"generation": 1}, {"generation": 999}, {"member_id": "nobody"}],
    ids=["an older generation", "a generation to come", "an unknown member"],
)
def test_offsets_of_who_is_no_longer_the_member_are_refused(
    borrow: Callable[[str], Client],
    keeper: Keeper,
    transactional: Open,
    join: Join,
    source: str,
    target: str,
    stale: dict[str, Any],
) -> None:
    """KIP-447: the group fences what the producer's epoch cannot, since two workers have two transactional ids."""
    java = borrow("java")
    group = new_group()
    first = join(java, group, source, **MEMBER)
    settled([first], partitions=2)
    second = join(java, group, source, **MEMBER)
    settled([first, second], partitions=2)
    members = eventually(lambda: java.call("describe_group", group=group)["members"])
    current = {"generation": first.generation, "member_id": members[0]["id"]}
    assert first.generation is not None and first.generation > 1

    producer = transactional(java)
    producer.begin()
    producer.write(target, b"of a member that was")
    with pytest.raises(ClientError):
        producer.send_offsets(group, source, {0: 5}, **{**current, **stale})
    producer.abort()
    assert committed(keeper.client, group, source) == {0: -1}

    producer.begin()
    producer.write(target, b"of a member")
    producer.send_offsets(group, source, {0: 5}, **current)
    producer.commit()
    assert committed(keeper.client, group, source) == {0: 5}
    assert committed_values(keeper.client, target, count=1) == [b"of a member"]


@clients_that(Can.TRANSACT)
def test_a_zombies_offsets_are_dropped(client: Client, keeper: Keeper, transactional: Open, source: str) -> None:
    group = new_group()
    zombie = transactional(client)
    zombie.begin()
    zombie.send_offsets(group, source, {0: 5})
    successor = transactional(client, zombie.transactional_id)
    with pytest.raises(ClientError):
        zombie.commit()
    assert eventually(lambda: stable_offset(keeper.client, group, source, 0)) == -1
    successor.begin()
    successor.send_offsets(group, source, {0: 6})
    successor.commit()
    assert committed(keeper.client, group, source) == {0: 6}
