"""Finding a coordinator: of one that has just died whoever asks is told its successor, and the topic it keeps its state in
has as many replicas as were wanted."""

import asyncio
from collections.abc import Callable
from uuid import UUID

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.coordinators import ChangeMetadata, Coordinators
from ottla.broker.neighbours import SUCCESSOR_LOOK_SECONDS, SUCCESSOR_LOOKS_MAX, Neighbours
from ottla.metadata.configs import BrokerConfig
from ottla.metadata.image import MetadataImage
from ottla.metadata.topic_names import GROUP_TOPIC, TRANSACTION_TOPIC
from ottla.replica.partitions import Partitions
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.message import Message
from sim.world import World
from tests.unit.broker.asked_peers import GONE, SILENT, Asked
from tests.unit.metadata.cluster import broker_record, image_of, partition_record, replay, topic_records


def coordinators_of(
    image: MetadataImage, world: World, peers: Asked, *, change_metadata: ChangeMetadata | None = None, **settings: str
) -> Coordinators:
    """Those of node 1."""
    return Coordinators(
        partitions=Partitions(
            node_id=1, storages=[], clock=world.clock, workers=world.workers, producer_id_expiration_ms=1
        ),
        image=image,
        config=BrokerConfig({"node.id": "1", **{name.replace("_", "."): text for name, text in settings.items()}}),
        clock=world.clock,
        workers=world.workers,
        neighbours=Neighbours(1, image, peers, world.clock),
        change_metadata=change_metadata or (lambda *_: asyncio.sleep(0)),
        new_uuid=lambda: UUID(int=1),
        new_transaction_machine=lambda: None,  # type: ignore[arg-type, return-value]
    )


def find(peers: Asked, *, leader: int, happens: Callable[[MetadataImage], None] | None = None) -> int:
    """What node 1 answers, if this happens a little later."""
    world = World(1)
    image = image_of(*topic_records(GROUP_TOPIC, replicas=[leader, 1, 3]), brokers=3)

    async def run() -> int:
        coordinators = coordinators_of(image, world, peers)
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


@pytest.mark.parametrize(
    ("answers", "leader_known"),
    [
        pytest.param({2: GONE}, 1, id="waits until it knows"),
        pytest.param({}, 2, id="the other lives: nothing to wait for"),
    ],
)
def test_a_successor_that_is_asked_before_it_knows_of_it(answers: dict[int, ApiError], leader_known: int) -> None:
    """Who answers FindCoordinator may be ahead of it, and a member is told NOT_COORDINATOR as an error."""
    world = World(1)
    image = image_of(*topic_records(GROUP_TOPIC, replicas=[2, 1, 3]), brokers=3)

    async def run() -> int:
        coordinators = coordinators_of(image, world, Asked(answers))
        asyncio.get_running_loop().call_later(3 * SUCCESSOR_LOOK_SECONDS, led_by(1), image)
        await coordinators.wait_group_partition("g")
        return image.topics[GROUP_TOPIC].partitions[0].leader

    assert world.run(run()) == leader_known


@pytest.mark.parametrize(
    ("brokers", "settings", "replicas"),
    [
        pytest.param(1, {}, 1, id="one node by itself"),
        pytest.param(2, {}, 2, id="as many as there are"),
        pytest.param(5, {}, 3, id="three of many"),
        pytest.param(1, {"offsets_topic_replication_factor": "3"}, 3, id="said so"),
        pytest.param(1, {"default_replication_factor": "3"}, 3, id="of a cluster that is not complete yet"),
        pytest.param(
            3, {"default_replication_factor": "3", "offsets_topic_replication_factor": "1"}, 1, id="one is enough"
        ),
    ],
)
def test_replicas_of_an_internal_topic(
    brokers: int, settings: dict[str, str], replicas: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever asks while the first of three nodes is alone may not leave every group with a single replica for ever: the
    controller refuses more replicas than brokers, and clients ask again."""
    created = created_by_asking(GROUP_TOPIC, brokers=brokers, **settings)
    assert created.replication_factor == replicas
    assert len([line for line in caplog.messages if "cannot be created" in line]) == 1, "told once, however often asked"


def test_in_sync_replicas_of_transactions_are_a_setting_of_their_own() -> None:
    created = created_by_asking(TRANSACTION_TOPIC, brokers=3, transaction_state_log_min_isr="3")
    assert ("min.insync.replicas", "3") in [(config.name, config.value) for config in created.configs]


def created_by_asking(topic: str, *, brokers: int, **settings: str) -> api.CreateTopicsRequest.CreatableTopic:
    """What the controller is asked for by the first who wants a coordinator; it refuses, and that one may ask again."""
    asked: list[api.CreateTopicsRequest.CreatableTopic] = []

    async def refuse(_: ApiKey, __: int, request: Message) -> api.CreateTopicsResponse:
        assert isinstance(request, api.CreateTopicsRequest)
        asked.extend(request.topics)
        refused = api.CreateTopicsResponse.CreatableTopicResult(error_code=ErrorCode.INVALID_REPLICATION_FACTOR)
        return api.CreateTopicsResponse(topics=[refused])

    world = World(1)
    coordinators = coordinators_of(image_of(brokers=brokers), world, Asked({}), change_metadata=refuse, **settings)
    for _ in range(2):
        with pytest.raises(ApiError, match=f"{topic} cannot be created: INVALID_REPLICATION_FACTOR") as refused:
            world.run(coordinators.find(topic, "g"))
        assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    created, again = asked
    assert created == again
    return created
