"""Members with a `group.instance.id` (KIP-345): restarted without a rebalance, fenced when doubled (scene 28)."""

from collections.abc import Callable

import pytest

from tests.conformance.client import Client
from tests.conformance.error_codes import FENCED_INSTANCE_ID
from tests.conformance.groups import Member, each_of, new_group, settled
from tests.conformance.registry import Can, can, clients_that
from tests.conformance.under_test import Keeper
from tests.conformance.waiting import eventually

PARTITIONS = 3
INSTANCES = ["one", "two", "three"]
Join = Callable[..., Member]


@pytest.fixture
def three_partitions(keeper: Keeper, topic_name: str) -> str:
    keeper.create(topic_name, partitions=PARTITIONS)
    return topic_name


@clients_that(Can.JOIN_GROUPS, Can.BE_STATIC)
def test_scene_28_a_rolling_restart_of_static_members_moves_nothing(
    client: Client, keeper: Keeper, join: Join, three_partitions: str
) -> None:
    group = new_group()
    settings = {"session_ms": 30_000, "heartbeat_ms": 300, "reset": "earliest"}
    members = [join(client, group, three_partitions, instance=instance, **settings) for instance in INSTANCES]
    if can(client, Can.SHOW_GENERATION):
        eventually(lambda: one_generation(members))  # The first may be about to hear of the next one.
    before = list(settled(members, partitions=PARTITIONS).values())
    generations = [member.generation for member in members]
    told_before = [len(member.events) for member in members]
    for at, instance in enumerate(INSTANCES):
        members[at].leave()  # A static member says nothing when it stops.
        members[at] = join(client, group, three_partitions, instance=instance, **settings)
        assert list(settled(members, partitions=PARTITIONS).values()) == before
        told_before[at] = len(members[at].events)
    assert [len(member.events) for member in members] == told_before
    if can(client, Can.SHOW_GENERATION):
        assert len(set(generations)) == 1
        assert [member.generation for member in members] == generations
    described = keeper.client.call("describe_group", group=group)
    assert sorted(member["instance"] for member in described["members"]) == sorted(INSTANCES)


def one_generation(members: list[Member]) -> None:
    settled(members, partitions=PARTITIONS)
    assert len({member.generation for member in members}) == 1


@clients_that(Can.JOIN_GROUPS, Can.BE_STATIC)
def test_a_static_member_that_stays_away_loses_its_partitions(
    client: Client, join: Join, three_partitions: str
) -> None:
    group = new_group()
    settings = {"session_ms": 2000, "heartbeat_ms": 300}
    stayer, goer = (join(client, group, three_partitions, instance=instance, **settings) for instance in INSTANCES[:2])
    settled([stayer, goer], partitions=PARTITIONS)
    goer.leave()
    settled([stayer], partitions=PARTITIONS)


@clients_that(Can.JOIN_GROUPS, Can.BE_STATIC, Can.NOTICE_FENCING)
def test_of_two_with_one_instance_id_the_first_is_fenced(client: Client, join: Join, three_partitions: str) -> None:
    group = new_group()
    settings = {"instance": "double", "session_ms": 6000, "heartbeat_ms": 300}
    first = join(client, group, three_partitions, **settings)
    settled([first], partitions=PARTITIONS)
    second = join(client, group, three_partitions, **settings)
    settled([second], partitions=PARTITIONS)
    each_of([first], lambda member: bool(member.errors))
    for error in first.errors:  # librdkafka says that it is fatal (-150), and in words why.
        assert error.code == FENCED_INSTANCE_ID or "fenced" in str(error).lower(), first.errors
    assert second.watch().errors == []
