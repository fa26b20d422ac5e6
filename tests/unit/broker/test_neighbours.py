"""Who is asked whether it is still there, and how long one that went stays listed."""

import asyncio
from typing import Any

import pytest

from ottla.broker.neighbours import IN_VAIN_SECONDS, LISTED_SECONDS, Neighbours
from ottla.metadata.image import MetadataImage
from sim.world import World
from tests.unit.broker.asked_peers import GONE, Asked
from tests.unit.metadata.cluster import broker_record, image_of, replay


class AskedLater(Asked):
    async def ask(self, node_id: int, *arguments: Any, **more: Any) -> None:
        await super().ask(node_id, *arguments, **more)
        await asyncio.sleep(0.001)


def neighbours_of(world: World, peers: Asked) -> tuple[Neighbours, MetadataImage]:
    image = image_of(brokers=3)
    return Neighbours(1, image, peers, world.clock), image


def change(neighbours: Neighbours, image: MetadataImage, *records: object) -> None:
    replay(image, *records)
    neighbours.on_metadata(image.take_delta(), image)


def test_all_who_want_to_know_at_a_time_ask_once() -> None:
    world, peers = World(1), AskedLater({})

    async def run() -> None:
        neighbours, _ = neighbours_of(world, peers)
        assert await asyncio.gather(*(neighbours.wait_replaced((1, 2, 3, -1)) for _ in range(10))) == [False] * 10

    world.run(run())
    assert sorted(peers.asked) == [2, 3]


def test_one_who_hangs_up_takes_the_answer_from_nobody() -> None:
    world, peers = World(1), Asked({2: GONE})

    async def run() -> None:
        neighbours, image = neighbours_of(world, peers)
        change(neighbours, image, broker_record(2, fenced=True))
        impatient, patient = (asyncio.ensure_future(neighbours.wait_replaced((2,))) for _ in range(2))
        await asyncio.sleep(0)
        impatient.cancel()
        assert await patient

    world.run(run())
    assert peers.asked == [2]


def test_one_that_is_only_out_of_our_reach_is_waited_for_once_in_a_while() -> None:
    world, peers = World(1), Asked({2: GONE})

    async def run() -> None:
        neighbours, _ = neighbours_of(world, peers)
        for expected_seconds in (0.5, 0.0, 0.0):
            begin = world.clock.monotonic()
            await neighbours.wait_replaced((2, 3))
            assert world.clock.monotonic() - begin == pytest.approx(expected_seconds)
        await asyncio.sleep(IN_VAIN_SECONDS + 0.1)
        assert await neighbours.wait_replaced((2, 3))

    world.run(run())


def test_a_broker_stays_listed_for_a_moment_after_it_was_fenced() -> None:
    world = World(1)

    async def run() -> None:
        neighbours, image = neighbours_of(world, Asked({}))
        change(neighbours, image, broker_record(2, fenced=True))
        assert neighbours.lost_lately() == {2}
        await asyncio.sleep(LISTED_SECONDS / 2)
        change(neighbours, image, broker_record(2, fenced=True, broker_epoch=9))
        assert neighbours.lost_lately() == {2}
        await asyncio.sleep(LISTED_SECONDS * 0.6)
        assert neighbours.lost_lately() == set(), "one that registers again is no news"

    world.run(run())


def test_one_that_stopped_in_order_is_not_lost() -> None:
    world = World(1)

    async def run() -> None:
        neighbours, image = neighbours_of(world, Asked({}))
        change(neighbours, image, broker_record(2, in_controlled_shutdown=True))
        change(neighbours, image, broker_record(2, in_controlled_shutdown=True, fenced=True))
        assert neighbours.lost_lately() == set()

    world.run(run())


def test_one_that_is_back_or_forgotten_is_not_lost() -> None:
    world = World(1)

    async def run() -> None:
        neighbours, image = neighbours_of(world, Asked({}))
        change(neighbours, image, broker_record(2, fenced=True), broker_record(3, fenced=True))
        change(neighbours, image, broker_record(2))
        del image.brokers[3]
        assert neighbours.lost_lately() == set()

    world.run(run())
