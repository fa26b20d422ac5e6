"""Groups as administrators see them: listed, described, deleted, their offsets altered and deleted."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.client import Client, ClientError, Record
from tests.conformance.error_codes import (
    GROUP_ID_NOT_FOUND,
    GROUP_SUBSCRIBED_TO_TOPIC,
    NON_EMPTY_GROUP,
    UNKNOWN_MEMBER_ID,
)
from tests.conformance.groups import Member, committed, new_group, settled
from tests.conformance.registry import Can, can, clients_that
from tests.conformance.under_test import Keeper

Join = Callable[..., Member]


@pytest.fixture
def two_partitions(keeper: Keeper, topic_name: str) -> str:
    keeper.create(topic_name, partitions=2)
    keeper.produce(topic_name, [Record(value=b"v", partition=number % 2) for number in range(20)])
    return topic_name


def state_of(client: Client, group: str) -> str:
    """Kafka 4 answers DescribeGroups for a group that is not there with an error (KIP-1043); old clients see Dead."""
    try:
        state: str = client.call("describe_group", group=group)["state"]
    except ClientError as error:
        assert error.code == GROUP_ID_NOT_FOUND, error
        return "DEAD"
    return state


def listed(client: Client, group: str) -> list[str | None]:
    return [one["state"] for one in client.call("list_groups") if one["group"] == group]


@clients_that(Can.JOIN_GROUPS, Can.DESCRIBE_GROUPS)
def test_a_group_is_described_through_its_life(client: Client, keeper: Keeper, join: Join, two_partitions: str) -> None:
    group = new_group()
    assert (listed(client, group), state_of(client, group)) == ([], "DEAD")
    members = [join(client, group, two_partitions, client_id=name, reset="earliest") for name in ("left", "right")]
    settled(members, partitions=2)
    described = client.call("describe_group", group=group)
    assert described["state"] == "STABLE"
    assert described["protocol"] in ("range", "roundrobin", "RoundRobinAssigner")
    assert {member["client_id"] for member in described["members"]} == {"left", "right"}
    assert all(member["id"].startswith(member["client_id"] + "-") for member in described["members"])
    assert all("127.0.0.1" in member["host"] for member in described["members"])
    owned = sorted(tuple(at) for member in described["members"] for at in member["owned"])
    assert owned == [(two_partitions, 0), (two_partitions, 1)]
    assert listed(client, group) == (["STABLE"] if can(client, Can.LIST_GROUP_STATES) else [None])
    for member in members:
        member.leave()
    assert state_of(client, group) == "EMPTY"
    assert listed(keeper.client, group) == ["EMPTY"]


@clients_that(Can.JOIN_GROUPS, Can.DELETE_GROUPS)
def test_a_group_is_deleted_once_it_is_empty(client: Client, keeper: Keeper, join: Join, two_partitions: str) -> None:
    group = new_group()
    member = join(client, group, two_partitions, reset="earliest")
    member.read(20)
    refusals(client, NON_EMPTY_GROUP, "delete_group", group=group)
    member.leave()
    assert committed(keeper.client, group, two_partitions, range(2)) == {0: 10, 1: 10}
    client.call("delete_group", group=group)
    assert (listed(client, group), state_of(client, group)) == ([], "DEAD")
    assert committed(keeper.client, group, two_partitions, range(2)) == {0: -1, 1: -1}
    refusals(client, GROUP_ID_NOT_FOUND, "delete_group", group=group)


def refusals(client: Client, code: int, operation: str, **arguments: Any) -> None:
    with pytest.raises(ClientError) as refused:
        client.call(operation, **arguments)
    assert refused.value.code == code, refused.value


@clients_that(Can.JOIN_GROUPS, Can.ALTER_OFFSETS)
def test_offsets_are_altered_while_nobody_reads(
    client: Client, keeper: Keeper, join: Join, two_partitions: str
) -> None:
    group = new_group()
    wanted = [{"topic": two_partitions, "partition": index, "offset": 7 + index} for index in (0, 1)]
    client.call("alter_offsets", group=group, offsets=wanted)
    assert committed(keeper.client, group, two_partitions, range(2)) == {0: 7, 1: 8}
    member = join(client, group, two_partitions, reset="earliest", auto_commit=False)
    assert sorted((record.partition, record.offset) for record in member.read(5)) == [
        (0, 7),
        (0, 8),
        (0, 9),
        (1, 8),
        (1, 9),
    ]
    # kafkajs looks at the group's state first, and says so in words alone.
    code = -1 if client.name == "kafkajs" else UNKNOWN_MEMBER_ID
    refusals(client, code, "alter_offsets", group=group, offsets=wanted)


@clients_that(Can.JOIN_GROUPS, Can.DELETE_OFFSETS)
def test_offsets_of_a_subscribed_topic_stay(client: Client, keeper: Keeper, join: Join, two_partitions: str) -> None:
    group = new_group()
    member = join(client, group, two_partitions, reset="earliest", auto_commit=False)
    member.read(20)
    member.commit_positions()
    of_first = {"group": group, "topic": two_partitions, "partitions": [0]}
    refusals(client, GROUP_SUBSCRIBED_TO_TOPIC, "delete_offsets", **of_first)
    member.leave()
    client.call("delete_offsets", **of_first)
    assert committed(keeper.client, group, two_partitions, range(2)) == {0: -1, 1: 10}
