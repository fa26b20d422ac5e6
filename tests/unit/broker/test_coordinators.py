"""Finding a coordinator that has just died: whoever asks is told its successor, not its name."""

import asyncio
from collections.abc import Callable
from uuid import UUID

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.coordinators import Coordinators
from ottla.broker.neighbours import SUCCESSOR_LOOK_SECONDS, SUCCESSOR_LOOKS_MAX, Neighbours
from ottla.metadata.configs import BrokerConfig
from ottla.metadata.image import MetadataImage
from ottla.metadata.topic_names import GROUP_TOPIC
from ottla.replica.partitions import Partitions
from sim.world import World
from tests.unit.broker.asked_peers import GONE, SILENT, Asked
from tests.unit.metadata.cluster import broker_record, image_of, partition_record, replay, topic_records


def find(peers: Asked, *, leader: int, happens: Callable[[MetadataImage], None] | None = None) -> int:
    """What node 1 answers, if this happens a little later."""
    world = World(1)
    image = image_of(*topic_records(GROUP_TOPIC, replicas=[leader, 1, 3]), brokers=3)

    async def run() -> int:
        config = BrokerConfig({"node.id": "1"})
        coordinators = Coordinators(
            partitions=Partitions(
                node_id=1, storages=[], clock=world.clock, workers=world.workers, producer_id_expiration_ms=1
            ),
            image=image,
            config=config,
            clock=world.clock,
            workers=world.workers,
            neighbours=Neighbours(1, image, peers, world.clock),
            change_metadata=lambda *_: asyncio.sleep(0),
            new_uuid=lambda: UUID(int=1),
            new_transaction_machine=lambda: None,  # type: ignore[arg-type, return-value]
        )
        if happens is not None:
            asyncio.get_running_loop().call_later(3 * SUCCESSOR_LOOK_SECONDS, happens, image)
        return await coordinators.find_living(GROUP_TOPIC, "g")

    return world.run(run())


def led_by(node_id: int) -> Callable[[MetadataImage], None]:
    """Node 2 is fenced, and another leads what it led."""
    partition = partition_record([2, 1, 3], leader=node_id, leader_epoch=1, partition_epoch=1)
    return lambda image: replay(image, broker_record(2, fenced=True), partition)


def test_a_coordinator_that_answers_is_told_at_once() -> None:
    peers = Asked({})
    assert find(peers, leader=2, happens=led_by(3)) == 2
    assert peers.asked == [2]


def test_nobody_asks_itself() -> None:
    peers = Asked({1: GONE})
    assert find(peers, leader=1) == 1
    assert peers.asked == []


def test_of_one_that_is_gone_the_successor_is_told() -> None:
    assert find(Asked({2: GONE}), leader=2, happens=led_by(3)) == 3


def test_one_that_is_silent_may_live() -> None:
    assert find(Asked({2: SILENT}), leader=2, happens=led_by(3)) == 2


def test_nobody_waits_for_ever_for_a_successor() -> None:
    assert SUCCESSOR_LOOKS_MAX * SUCCESSOR_LOOK_SECONDS <= 1
    assert find(Asked({2: GONE}), leader=2) == 2


def test_a_partition_without_a_leader_has_no_coordinator() -> None:
    with pytest.raises(ApiError) as refused:
        find(Asked({2: GONE}), leader=2, happens=led_by(-1))
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
