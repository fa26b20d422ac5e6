"""Proposals for an ISR: what each answer means, and that the watermark waits until it is certain."""

import asyncio

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.replica.isr_changes import IsrChanges
from ottla.wire import api
from tests.unit.metadata.cluster import orders, topic_records
from tests.unit.replica.brokers import LAG_SECONDS, TOPIC, World, play


def test_many_partitions_share_a_request() -> None:
    async def scene(world: World) -> None:
        world.cut |= {(2, 1)}
        for number in range(30):
            await world[1].append(b"x", number=number)
        await world.until(lambda: all(world.state(number).isr == (1,) for number in range(30)))
        sizes = [sum(len(topic.partitions) for topic in request.topics) for request in world.proposals]
        assert len(sizes) <= 2
        assert sum(sizes) == 30

    play(scene, *topic_records(TOPIC, partitions=30, replicas=(1, 2)), brokers=2)


def test_who_shall_come_in_is_waited_for_before_the_controller_says_so() -> None:
    """The controller may have committed it, and elect who is in, before we hear of it."""

    async def scene(world: World) -> None:
        answering = asyncio.Event()

        async def late(request: api.AlterPartitionRequest) -> None:
            await answering.wait()

        world.controller_answers = late
        await world.elect(1, isr=[1])
        partition = world[1].partition()
        await world.until(lambda: partition.proposal is not None)
        world.cut |= {(2, 1)}
        await asyncio.sleep(0.6)
        await world[1].append(b"a")
        assert partition.isr == (1,)
        assert partition.high_watermark == 0
        answering.set()
        await world.until(lambda: partition.isr == (1, 2))
        assert partition.high_watermark == 0
        world.cut.clear()
        await world.until(lambda: partition.high_watermark == 1)

    play(scene, *orders([1, 2]), brokers=2)


@pytest.mark.parametrize(
    ("code", "stays"),
    [
        (ErrorCode.INELIGIBLE_REPLICA, False),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, False),
        (ErrorCode.INVALID_UPDATE_VERSION, True),
        (ErrorCode.FENCED_LEADER_EPOCH, True),
        (ErrorCode.INVALID_REQUEST, True),
        (ErrorCode.NEW_LEADER_ELECTED, True),
        (ErrorCode.UNKNOWN_TOPIC_ID, True),
    ],
)
def test_only_a_proposal_that_cannot_be_in_force_is_dropped(code: ErrorCode, stays: bool) -> None:
    async def scene(world: World) -> None:
        world.cut |= {(2, 1), (3, 1)}
        partition = world[1].partition()
        asked: list[api.AlterPartitionRequest] = []

        async def answer(request: api.AlterPartitionRequest) -> api.AlterPartitionResponse:
            asked.append(request)
            one = request.topics[0]
            refused = api.AlterPartitionResponse.PartitionData(partition_index=0, error_code=code)
            return api.AlterPartitionResponse(
                topics=[api.AlterPartitionResponse.TopicData(topic_id=one.topic_id, partitions=[refused])]
            )

        changes = IsrChanges(
            node_id=1, broker_epoch=lambda: 7, ask_controller=answer, partitions=[partition], lag_seconds=LAG_SECONDS
        )
        world[1].partitions.cluster.propose = changes.propose
        partition._propose((1, 2))
        proposal = partition.proposal
        await world.until(lambda: asked)
        await asyncio.sleep(0.1)
        assert (partition.proposal is proposal) is stays
        named = asked[0].topics[0].partitions[0]
        assert [(one.broker_id, one.broker_epoch) for one in named.new_isr_with_epochs] == [(1, 7), (2, 7)]
        assert (named.leader_epoch, named.partition_epoch, asked[0].broker_epoch) == (0, 0, 7)
        await changes.look_for_lagging()
        await asyncio.sleep(0.1)
        assert len(asked) == (2 if stays else 1), "what is not settled is asked again"
        await world.elect(1, isr=[1, 2])
        assert partition.proposal is None, "the image has the last word"
        await changes.close()

    play(scene, *orders([1, 2, 3]))


def test_a_controller_that_cannot_be_reached_is_asked_again() -> None:
    async def scene(world: World) -> None:
        failures = 0

        async def fail(request: api.AlterPartitionRequest) -> None:
            nonlocal failures
            failures += 1
            if failures <= 3:
                raise ApiError(ErrorCode.NOT_CONTROLLER, "nobody yet")

        world.controller_answers = fail
        await world.elect(1, isr=[1])
        await world.until(lambda: world.state().isr == (1, 2))
        assert failures == 4

    play(scene, *orders([1, 2]), brokers=2)


def test_who_takes_no_writes_is_not_waited_for_and_comes_in_when_it_does_again() -> None:
    async def scene(world: World) -> None:
        begun = asyncio.get_running_loop().time()
        world.refusing = [2]
        await world.elect(1, isr=[1])
        await world.until(lambda: world.proposals)
        await asyncio.sleep(0.01)
        world.cut |= {(2, 1)}  # From here on it copies nothing.
        await world[1].append(b"a")
        await world.until(lambda: world[1].partition().high_watermark == 1)
        assert asyncio.get_running_loop().time() - begun < LAG_SECONDS / 2
        world.cut.clear()
        world.refusing = []
        await world.until(lambda: world.state().isr == (1, 2))

    play(scene, *orders([1, 2]), brokers=2)


def test_an_idle_follower_that_takes_writes_again_comes_in_with_a_later_look() -> None:
    async def scene(world: World) -> None:
        world.refusing = [2]
        await world.elect(1, isr=[1])
        await world.until(lambda: world.proposals)
        await asyncio.sleep(LAG_SECONDS)
        assert world.state().isr == (1,)
        world.refusing = []
        await world.until(lambda: world.state().isr == (1, 2))

    play(scene, *orders([1, 2]), brokers=2)


def test_who_left_because_it_was_not_heard_does_not_come_in_before_it_is() -> None:
    """Below the minimum the watermark stands still: having all before it is no sign of life."""

    async def scene(world: World) -> None:
        await world[1].produce(b"a")
        world.cut |= {(2, 1), (3, 1)}
        await world[1].append(b"b")
        await world.until(lambda: world.proposals)
        await asyncio.sleep(3 * LAG_SECONDS)
        assert (world.state().isr, len(world.proposals)) == ((1,), 1)
        world.cut.clear()
        await world.until(lambda: len(world.state().isr) == 3)

    play(scene, *orders([1, 2, 3], min_isr=2))


def test_a_follower_of_a_former_life_does_not_come_in() -> None:
    async def scene(world: World) -> None:
        await world[1].produce(b"a")
        partition = world[1].partition()
        world.cut |= {(2, 1)}
        await world.elect(1, isr=[1])
        partition.on_follower_fetch(2, 6, 1, 0)  # Registered in epoch 7.
        assert partition.proposal is None
        partition.on_follower_fetch(2, 7, 1, 0)
        assert partition.proposal is not None
        partition.on_follower_fetch(2, 6, 0, 0)  # Late: it does not take back what is known.
        follower = partition.follower(2)
        assert follower is not None and follower.end_offset == 1
        await world.until(lambda: world.state().isr == (1, 2))
        world.cut.clear()

    play(scene, *orders([1, 2]), brokers=2)
