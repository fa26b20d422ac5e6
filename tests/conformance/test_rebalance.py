"""Members come, crash and stop polling; the others go on (scenes 25 and 38)."""

import time
from collections.abc import Callable

import pytest

from tests.conformance.client import Client
from tests.conformance.groups import Member, new_group, overlaps, ownerships, settled
from tests.conformance.registry import Can, clients_that
from tests.conformance.steady_writer import SteadyWriter
from tests.conformance.under_test import BrokerUnderTest, Keeper
from tests.conformance.waiting import eventually

SHORT_SESSION = {"session_ms": 2000, "heartbeat_ms": 300, "reset": "earliest"}
PARTITIONS = 3
HELD_MS = 5000
Join = Callable[..., Member]


@pytest.fixture
def three_partitions(keeper: Keeper, topic_name: str) -> str:
    keeper.create(topic_name, partitions=PARTITIONS)
    return topic_name


@clients_that(Can.JOIN_GROUPS, Can.REBALANCE_COOPERATIVELY)
def test_scene_25_one_crashes_another_joins_and_the_bystander_never_moves(
    client: Client, own_process: Callable[[str], Client], join: Join, three_partitions: str
) -> None:
    group = new_group()
    settings = {**SHORT_SESSION, "assignor": "cooperative"}
    first = join(client, group, three_partitions, client_id="c1", **settings)
    second = join(client, group, three_partitions, client_id="c2", **settings)
    third = join(own_process(client.name), group, three_partitions, client_id="c3", **settings)
    before = settled([first, second, third], partitions=PARTITIONS)
    crashed_ms = {third.name: time.time() * 1000}
    third.client.kill()
    between = settled([first, second], partitions=PARTITIONS)
    [heir] = [member for member in (first, second) if len(between[member.name]) == 2]
    assert between[heir.name] == before[heir.name] | before[third.name]
    [bystander] = [member for member in (first, second) if member is not heir]

    fourth = join(client, group, three_partitions, client_id="c4", **settings)
    after = settled([first, second, fourth], partitions=PARTITIONS)
    assert after[fourth.name] <= between[heir.name]
    assert after[bystander.name] == between[bystander.name] == before[bystander.name]
    since_kill = [event for event in bystander.revocations if event.at_ms > crashed_ms[third.name]]
    assert since_kill == []
    members = [first, second, third, fourth]
    assert overlaps(ownerships(members, crashed_ms=crashed_ms)) == []


@clients_that(Can.JOIN_GROUPS)
def test_a_member_that_leaves_hands_over_at_once(client: Client, join: Join, three_partitions: str) -> None:
    """Long before its session of a minute would end."""
    group = new_group()
    settings = {"session_ms": 60_000, "heartbeat_ms": 300}
    leaver, stayer = (join(client, group, three_partitions, **settings) for _ in range(2))
    settled([leaver, stayer], partitions=PARTITIONS)
    leaver.leave()
    settled([stayer], partitions=PARTITIONS, wait_s=20)


@clients_that(Can.JOIN_GROUPS, Can.STOP_POLLING)
def test_scene_38_who_stops_polling_is_put_out_and_the_others_go_on(
    client: Client, broker: BrokerUnderTest, join: Join, three_partitions: str
) -> None:
    group = new_group()
    settings = {**SHORT_SESSION, "session_ms": 1500, "poll_interval_ms": 2000}
    with SteadyWriter(broker.bootstrap, three_partitions, partitions=PARTITIONS):
        stuck, *others = (join(client, group, three_partitions, **settings) for _ in range(3))
        settled([stuck, *others], partitions=PARTITIONS)
        held_from_ms = time.time() * 1000
        stuck.hold(HELD_MS)
        settled(others, partitions=PARTITIONS)
        taken_over_ms = time.time() * 1000
        assert taken_over_ms - held_from_ms < HELD_MS, "the others waited until it polled again"

        def everything_is_read() -> None:
            read = {
                record.partition for other in others for record in other.watch().records if record.at_ms > taken_over_ms
            }
            assert read == set(range(PARTITIONS))

        eventually(everything_is_read)
        settled([stuck, *others], partitions=PARTITIONS)  # And when it polls again, it is a member again.
