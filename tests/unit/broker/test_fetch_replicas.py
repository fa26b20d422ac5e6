"""Fetch among replicas: consumers at followers and in racks, who leads instead, where a follower's log parts from ours."""

import asyncio
from typing import Any

import pytest

from ottla.base.errors import ErrorCode
from ottla.broker.callers import Callers
from ottla.broker.handlers.offsets import list_offsets
from ottla.broker.handlers.produce import produce
from ottla.broker.request import RequestContext
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.frame import decode_response
from ottla.wire.hot_produce import ProduceCall
from ottla.wire.records import BatchBuilder
from tests.unit.broker.real_node import values_of
from tests.unit.metadata.cluster import broker_record, orders
from tests.unit.replica.brokers import LAG_SECONDS, PEER, TOPIC, Broker, World, play


def request(
    world: World, offset: int = 0, *, replica: tuple[int, int] = (-1, -1), rack: str = "", **fields: Any
) -> api.FetchRequest:
    partition = api.FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, **fields)
    topic = api.FetchRequest.FetchTopic(topic_id=world.image.topics[TOPIC].id, topic=TOPIC, partitions=[partition])
    return api.FetchRequest(
        replica_state=api.FetchRequest.ReplicaState(replica_id=replica[0], replica_epoch=replica[1]),
        replica_id=replica[0],
        max_wait_ms=100,
        min_bytes=1,
        topics=[topic],
        rack_id=rack,
    )


async def fetched(broker: Broker, asked: api.FetchRequest, version: int = 18) -> api.FetchResponse.PartitionData:
    response = await broker.serve_fetch(asked, version)
    return response.responses[0].partitions[0]


def test_consumers_read_from_followers_up_to_their_watermark() -> None:
    async def scene(world: World) -> None:
        await world[1].produce(b"a")
        await world.until(lambda: world[2].partition().high_watermark == 1)
        world.cut |= {(3, 1)}
        await world[1].append(b"uncommitted")
        await world.until(lambda: world[2].partition().log.log_end_offset == 2)
        answer = await fetched(world[2], request(world))
        assert values_of(answer.records) == [b"a"]
        assert answer.high_watermark == 1
        old = await fetched(world[2], request(world), version=10)
        assert old.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    play(scene, *orders([1, 2, 3], min_isr=2))


def test_a_fetch_shows_which_follower_has_a_connection_open() -> None:
    async def scene(world: World) -> None:
        world.cut |= {(2, 1), (3, 1)}
        callers = world[1].node.callers = Callers(world.image)
        await fetched(world[1], request(world))
        await fetched(world[1], request(world, replica=(2, 7)))
        assert [callers.is_there(one) for one in (1, 2, 3)] == [False, True, False]

    play(scene, *orders([1, 2, 3], min_isr=2))


def test_a_waiting_consumer_at_a_follower_hears_of_new_data() -> None:
    async def scene(world: World) -> None:
        await world[1].produce(b"a")
        early = await fetched(world[2], request(world, 2))
        assert early.error_code == ErrorCode.OFFSET_NOT_AVAILABLE, "elsewhere it may be committed already"
        await world.until(lambda: world[2].partition().high_watermark == 1)
        asked = request(world, 1)
        asked.max_wait_ms = 60_000
        waiting = asyncio.create_task(fetched(world[2], asked))
        await asyncio.sleep(2)
        assert not waiting.done()
        await world[1].produce(b"b")
        started = world.clock.monotonic()
        assert values_of((await waiting).records) == [b"b"]
        assert world.clock.monotonic() - started < 0.1

    play(scene, *orders([1, 2]), brokers=2)


def test_a_consumer_is_sent_to_a_replica_in_its_rack() -> None:
    async def scene(world: World) -> None:
        for node_id, rack in ((1, "a"), (2, "b"), (3, "b")):
            await world.commit(broker_record(node_id, rack=rack))
        await world[1].produce(b"a")
        assert (await fetched(world[1], request(world, rack="b"))).preferred_read_replica == -1
        world[1].config["replica.selector.class"] = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
        answer = await fetched(world[1], request(world, rack="b"))
        assert answer.preferred_read_replica in (2, 3)
        assert not answer.records
        for rack in ("a", "elsewhere", ""):
            near = await fetched(world[1], request(world, rack=rack))
            assert (near.preferred_read_replica, values_of(near.records)) == (-1, [b"a"])
        old = await fetched(world[1], request(world, rack="b"), version=10)
        assert values_of(old.records) == [b"a"]

    play(scene, *orders([1, 2, 3]))


def test_who_does_not_lead_says_who_does() -> None:
    async def scene(world: World) -> None:
        stale = request(world, replica=(3, 7))
        response = await world[2].serve_fetch(stale)
        answer = response.responses[0].partitions[0]
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (1, 0)
        assert [(one.node_id, one.host, one.port) for one in response.node_endpoints] == [(1, "host-1", 9092)]
        assert not (await world[2].serve_fetch(stale, 15)).node_endpoints
        await world.elect(2)
        response = await world[2].serve_fetch(request(world, current_leader_epoch=0))
        answer = response.responses[0].partitions[0]
        assert answer.error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert answer.current_leader.leader_id == 2

    play(scene, *orders([1, 2, 3]))


def test_a_follower_is_told_where_its_log_parts_from_ours() -> None:
    async def scene(world: World) -> None:
        await world[1].produce(b"a", b"b")
        await world.elect(1)
        await world[1].produce(b"c")
        for epoch, offset, diverging in ((0, 5, (0, 2)), (0, 2, (-1, -1)), (1, 3, (-1, -1)), (1, 9, (1, 3))):
            answer = await fetched(world[1], request(world, offset, replica=(2, 7), last_fetched_epoch=epoch))
            assert answer.error_code == 0
            assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == diverging
        unknown = await fetched(world[1], request(world, 3, replica=(2, 7), last_fetched_epoch=9))
        assert unknown.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert unknown.log_start_offset == 0

    play(scene, *orders([1, 2]), brokers=2)


def test_a_stranger_is_no_follower() -> None:
    async def scene(world: World) -> None:
        answer = await fetched(world[1], request(world, replica=(9, 1)))
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    play(scene, *orders([1, 2]), brokers=2)


# -- Produce ----------------------------------------------------------------------------------------------------------


async def produced(broker: Broker, *, acks: int = -1, version: int = 12) -> api.ProduceResponse:
    builder = BatchBuilder()
    builder.append(broker.world.clock.now_ms(), None, b"x")
    call = ProduceCall(None, acks, 20_000, [(TOPIC, [(0, memoryview(bytearray(builder.build())))])])
    context = RequestContext(ApiKey.PRODUCE, version, 9, "test", PEER)
    parts = await produce(broker.node, context, call)
    assert parts is not None
    response = decode_response(ApiKey.PRODUCE, version, memoryview(b"".join(bytes(part) for part in parts))[4:])[1]  # type: ignore[arg-type]
    assert isinstance(response, api.ProduceResponse)
    return response


def test_a_produce_to_a_follower_names_the_leader() -> None:
    async def scene(world: World) -> None:
        response = await produced(world[2])
        answer = response.responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (1, 0)
        assert [(one.node_id, one.host, one.port) for one in response.node_endpoints] == [(1, "host-1", 9092)]
        assert not (await produced(world[2], version=9)).node_endpoints
        world[2].hold()
        await world.elect(2)
        lost = await produced(world[1])
        assert lost.responses[0].partition_responses[0].current_leader.leader_id == 2

    play(scene, *orders([1, 2]), brokers=2)


def test_acks_all_with_too_few_in_sync_replicas() -> None:
    async def scene(world: World) -> None:
        def code(response: api.ProduceResponse) -> ErrorCode:
            return ErrorCode(response.responses[0].partition_responses[0].error_code)

        assert code(await produced(world[1])) is ErrorCode.NONE
        world.cut |= {(2, 1), (3, 1)}
        after = asyncio.create_task(produced(world[1]))
        await world.until(lambda: world.state().isr == (1,), seconds=2 * LAG_SECONDS)
        assert code(await after) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        end = world[1].partition().log.log_end_offset
        assert code(await produced(world[1])) is ErrorCode.NOT_ENOUGH_REPLICAS
        assert world[1].partition().log.log_end_offset == end
        assert code(await produced(world[1], acks=1)) is ErrorCode.NONE

    play(scene, *orders([1, 2, 3], min_isr=2))


# -- ListOffsets ------------------------------------------------------------------------------------------------------


async def latest(broker: Broker, *, replica_id: int = -1, version: int = 8) -> tuple[int, int]:
    wanted = api.ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
    topic = api.ListOffsetsRequest.ListOffsetsTopic(name=TOPIC, partitions=[wanted])
    context = RequestContext(ApiKey.LIST_OFFSETS, version, 9, "test", PEER)
    response = await list_offsets(broker.node, context, api.ListOffsetsRequest(replica_id=replica_id, topics=[topic]))
    answer = response.topics[0].partitions[0]
    return answer.error_code, answer.offset


def test_a_new_leader_knows_the_end_once_its_followers_are_there() -> None:
    async def scene(world: World) -> None:
        await world[1].produce(b"a")
        world.cut |= {(3, 1), (3, 2), (1, 2)}
        await world[1].append(b"b")
        await world.until(lambda: world[2].partition().log.log_end_offset == 2)
        assert await latest(world[1]) == (0, 1)
        assert await latest(world[1], replica_id=2) == (0, 2)
        assert await latest(world[2]) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        await world.elect(2)
        assert await latest(world[2]) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
        assert await latest(world[2], version=4) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
        world.cut.clear()
        await world.until(lambda: world[2].partition().high_watermark == 2)
        assert await latest(world[2]) == (0, 2)

    play(scene, *orders([1, 2, 3], min_isr=2))


@pytest.mark.parametrize("version", [12, 15, 18])
def test_followers_of_any_version_read_to_the_end(version: int) -> None:
    async def scene(world: World) -> None:
        world.cut |= {(2, 1)}
        await world[1].append(b"a")
        answer = await fetched(world[1], request(world, replica=(2, 7)), version)
        assert values_of(answer.records) == [b"a"]
        assert answer.high_watermark == 0

    play(scene, *orders([1, 2]), brokers=2)
