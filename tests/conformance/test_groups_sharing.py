"""How a group shares partitions: idle members, several partitions a member, two groups, new partitions, mixed clients.

Scenes 29 and 31.
"""

from collections.abc import Callable
from functools import partial

import pytest

from tests.conformance.client import Client, Record
from tests.conformance.error_codes import INCONSISTENT_GROUP_PROTOCOL
from tests.conformance.groups import Member, committed, each_of, new_group, settled
from tests.conformance.registry import Can, clients_that, names_that
from tests.conformance.under_test import Keeper
from tests.conformance.waiting import eventually

PARTITIONS = 4
Join = Callable[..., Member]


@pytest.fixture
def four_partitions(keeper: Keeper, topic_name: str) -> str:
    keeper.create(topic_name, partitions=PARTITIONS)
    return topic_name


def one_each(keeper: Keeper, topic: str, value: bytes, partitions: int = PARTITIONS) -> None:
    keeper.produce(topic, [Record(value=value, partition=index) for index in range(partitions)])


@clients_that(Can.JOIN_GROUPS)
def test_scene_31_one_member_has_all_three_share_and_a_fifth_is_idle(
    client: Client, keeper: Keeper, join: Join, four_partitions: str
) -> None:
    group = new_group()
    members = [join(client, group, four_partitions, reset="earliest", heartbeat_ms=300)]
    settled(members, partitions=PARTITIONS)
    for count in (3, 5):
        members += [
            join(client, group, four_partitions, reset="earliest", heartbeat_ms=300)
            for _ in range(count - len(members))
        ]
        shares = settled(members, partitions=PARTITIONS)
        assert sorted(len(share) for share in shares.values()) == {3: [1, 1, 2], 5: [0, 1, 1, 1, 1]}[count]
    one_each(keeper, four_partitions, b"shared")

    def read_once() -> None:
        read = [record.partition for member in members for record in member.watch().records]
        assert sorted(read) == list(range(PARTITIONS))

    eventually(read_once)


@clients_that(Can.JOIN_GROUPS)
def test_scene_31_two_groups_read_everything_and_their_offsets_are_their_own(
    client: Client, keeper: Keeper, join: Join, four_partitions: str
) -> None:
    groups = [new_group(), new_group()]
    one_each(keeper, four_partitions, b"first")
    first, second = (join(client, group, four_partitions, reset="earliest") for group in groups)
    each_of([first, second], lambda member: len(member.records) == PARTITIONS)
    second.leave()
    one_each(keeper, four_partitions, b"later")
    each_of([first], lambda member: len(member.records) == 2 * PARTITIONS)
    first.leave()
    everywhere = partial(committed, keeper.client, topic=four_partitions, partitions=range(PARTITIONS))
    assert everywhere(group=groups[0]) == dict.fromkeys(range(PARTITIONS), 2)
    assert everywhere(group=groups[1]) == dict.fromkeys(range(PARTITIONS), 1)


@clients_that(Can.JOIN_GROUPS)
def test_scene_29_partitions_added_are_shared_out_and_read_from_their_start(
    client: Client, keeper: Keeper, join: Join, four_partitions: str
) -> None:
    group = new_group()
    settings = {"reset": "earliest", "metadata_ms": 300, "heartbeat_ms": 300}
    members = [join(client, group, four_partitions, **settings) for _ in range(2)]
    settled(members, partitions=PARTITIONS)
    keeper.client.call("create_partitions", name=four_partitions, total=PARTITIONS + 2)
    eventually(partial(one_each, keeper, four_partitions, b"early", PARTITIONS + 2))  # Before any member knows of them.
    settled(members, partitions=PARTITIONS + 2)

    def all_read() -> None:
        read = {(record.partition, record.offset) for member in members for record in member.watch().records}
        assert read == {(index, 0) for index in range(PARTITIONS + 2)}

    eventually(all_read)


def test_clients_of_every_make_share_one_group(
    borrow: Callable[[str], Client], keeper: Keeper, join: Join, four_partitions: str
) -> None:
    """The assignments are made by whichever client leads and read by all the others."""
    group = new_group()
    names = names_that(Can.JOIN_GROUPS, Can.CHOOSE_ASSIGNOR)
    settings = {"reset": "earliest", "assignor": "range", "heartbeat_ms": 300}
    members = [join(borrow(name), group, four_partitions, **settings) for name in names]
    shares = settled(members, partitions=PARTITIONS)
    assert sorted(len(share) for share in shares.values()) == [0, 1, 1, 1, 1]
    one_each(keeper, four_partitions, b"v")
    each_of(members, lambda member: len(member.records) == len(member.owned))


def test_the_protocol_that_all_know_is_voted_for_and_a_stranger_to_it_is_refused(
    borrow: Callable[[str], Client], keeper: Keeper, join: Join, four_partitions: str
) -> None:
    group = new_group()
    librdkafka, python = borrow("confluent-kafka"), borrow("kafka-python")
    both = {"partition.assignment.strategy": "range,roundrobin"}
    members = [join(librdkafka, group, four_partitions, raw=both, heartbeat_ms=300)]
    settled(members, partitions=PARTITIONS)
    assert keeper.client.call("describe_group", group=group)["protocol"] == "range"
    members.append(join(python, group, four_partitions, assignor="roundrobin", heartbeat_ms=300))
    settled(members, partitions=PARTITIONS)
    assert keeper.client.call("describe_group", group=group)["protocol"] == "roundrobin"
    stranger = join(librdkafka, group, four_partitions, assignor="cooperative")
    each_of([stranger], lambda member: bool(member.errors))
    assert {error.code for error in stranger.errors} == {INCONSISTENT_GROUP_PROTOCOL}, stranger.errors
    assert settled(members, partitions=PARTITIONS)
