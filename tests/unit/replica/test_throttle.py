"""Replication throttles: who is held back, and that the rate holds."""

import asyncio

import pytest

from ottla.broker.fetch_session import FetchSession, Replica
from ottla.metadata.configs import BrokerLayers
from ottla.replica.throttle import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    Throttle,
    is_throttled,
)
from ottla.wire import api
from tests.unit.metadata.cluster import orders, partition_record
from tests.unit.replica.brokers import TOPIC, World, play

RATE = 100_000


@pytest.mark.parametrize(
    ("listed", "expected"),
    [(None, False), ("", False), ("*", True), ("3:7", True), ("2:7, 3:7", True), ("3:8,4:7", False), ("33:7", False)],
)
def test_topics_name_replicas(listed: str | None, expected: bool) -> None:
    assert is_throttled(listed, 3, 7) is expected


def test_the_rate_holds_whatever_the_size_of_the_pieces() -> None:
    throttle = Throttle()
    throttle.count(10**12, 0.0)
    assert throttle.rest_seconds(0.0) == 0.0
    throttle.set_rate(RATE)
    now = moved = 0.0
    for size in (1, 50_000, 1_000_000, 7, 300_000) * 5:
        now += throttle.rest_seconds(now)
        throttle.count(size, now)
        moved += size
    now += throttle.rest_seconds(now)
    assert moved / now == pytest.approx(RATE, rel=0.05)


@pytest.mark.parametrize(("side", "rate", "node_id"), [("leader", LEADER_RATE, 1), ("follower", FOLLOWER_RATE, 2)])
def test_a_replica_that_catches_up_is_held_to_the_rate(side: str, rate: str, node_id: int) -> None:
    async def scene(world: World) -> None:
        for _ in range(100):
            await world[1].append(b"x" * 10_000)
        world[node_id].layers = BrokerLayers(dynamic={rate: str(RATE)})
        name = f"{side}.replication.throttled.replicas"
        await world.commit(api.ConfigRecord(resource_type=2, resource_name=TOPIC, name=name, value=f"0:{node_id}"))
        started = world.clock.monotonic()
        await world.change(replicas=(1, 2), adding_replicas=(2,))
        await world.until(lambda: world.state().isr == (1, 2))
        seconds = world.clock.monotonic() - started
        assert 1_000_000 / seconds == pytest.approx(RATE, rel=0.2)
        started = world.clock.monotonic()
        for _ in range(100):
            await world[1].produce(b"x" * 10_000)
        assert world.clock.monotonic() - started < 2, "who is in sync is not held back"

    play(scene, *orders([1]), brokers=2)


@pytest.mark.parametrize("follower_rate", [RATE, 3 * RATE], ids=["equal rates", "a leader that is slower"])
def test_several_partitions_that_are_throttled_at_both_ends_reach_the_rate_together(follower_rate: int) -> None:
    async def scene(world: World) -> None:
        for number in range(4):
            for _ in range(50):
                await world[1].append(b"x" * 10_000, number=number)
        world[1].layers = BrokerLayers(dynamic={LEADER_RATE: str(RATE)})
        world[2].layers = BrokerLayers(dynamic={FOLLOWER_RATE: str(follower_rate)})
        for name in (LEADER_REPLICAS, FOLLOWER_REPLICAS):
            await world.commit(api.ConfigRecord(resource_type=2, resource_name=TOPIC, name=name, value="*"))
        started = world.clock.monotonic()
        for number in range(4):
            await world.change(number, replicas=(1, 2), adding_replicas=(2,))
        await world.until(lambda: all(world.state(number).isr == (1, 2) for number in range(4)), seconds=300)
        seconds = world.clock.monotonic() - started
        assert 2_000_000 / seconds == pytest.approx(RATE, rel=0.2)
        assert len(world[2].fetches) < 500, "a follower that is held back does not ask again and again"

    others = [partition_record([1], partition=number) for number in range(1, 4)]
    play(scene, *orders([1]), *others, brokers=2)


def test_a_partition_that_was_let_go_while_it_rested_is_not_read_from_its_old_offset() -> None:
    async def scene(world: World) -> None:
        session = FetchSession(1, by_topic_id=False, replica=Replica(2, 1))
        entry = session.want(TOPIC, 0)
        entry.bind(world[1].partition())
        entry.rest(0.1)
        session.forget(TOPIC, 0)
        await asyncio.sleep(1)
        assert not session.due

    play(scene, *orders([1]), brokers=2)
