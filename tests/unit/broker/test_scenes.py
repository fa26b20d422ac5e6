"""Scenes of the seeds that a whole node plays: 7, 8, 10, 17, and of 58 what one node can show.

`docs/FEATURES.md` lists every scene with its tests.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest

from ottla.base.errors import ErrorCode
from ottla.broker.housekeeping import Housekeeping
from ottla.broker.node import World as Ports
from ottla.broker.start import AdvertisedListener, open_node
from ottla.log.handles import HandleCache
from ottla.server.settings import settings_of_up
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.records import BatchBuilder
from sim.client import SimulatedClient, produce_request
from sim.disk import SimulatedDisk
from sim.node import SimulatedNode
from sim.world import World
from tests.unit.broker.real_node import RealNode, values_of
from tests.unit.fakes import FakeClock, FakeWorkers

BY_NAME = 12
WAIT_S = 5.0


def fetch_request(topic: str, offsets: dict[int, int], *, max_wait_ms: int = 0, min_bytes: int = 1) -> Any:
    partitions = [
        api.FetchRequest.FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
        for index, offset in offsets.items()
    ]
    return api.FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=50 << 20,
        session_id=0,
        session_epoch=-1,
        topics=[api.FetchRequest.FetchTopic(topic=topic, partitions=partitions)],
    )


def values_by_partition(answer: Any) -> dict[int, list[bytes | None]]:
    partitions = answer.responses[0].partitions
    assert [one.error_code for one in partitions] == [ErrorCode.NONE] * len(partitions)
    return {one.partition_index: values_of(one.records) for one in partitions}


async def values_in(node: RealNode, topic: str, *partitions: int) -> dict[int, list[bytes | None]]:
    request = fetch_request(topic, dict.fromkeys(partitions, 0))
    return values_by_partition(await node.ask(ApiKey.FETCH, request, BY_NAME))


def memory_disk(capacity_bytes: int | None = None) -> SimulatedDisk:
    disk = SimulatedDisk(Random(0), capacity_bytes=capacity_bytes)
    disk.make_directory("/data")
    return disk


@asynccontextmanager
async def node_over(disk: SimulatedDisk) -> AsyncIterator[RealNode]:
    """A node with its housekeeping, until the end of the block."""
    clock, workers, numbers = FakeClock(), FakeWorkers(), itertools.count(1000)
    ports = Ports(
        clock=clock,
        workers=workers,
        disk=disk,
        new_uuid=lambda: UUID(int=next(numbers) << 64 | 7),
        new_session_id=lambda: next(numbers),
        chance=lambda: 0.5,
    )
    settings = settings_of_up(data="/data", host="localhost", port=9092, overrides={}, environment={})
    listeners = [AdvertisedListener(name="PLAINTEXT", host="localhost", port=9092)]
    node = RealNode(await open_node(ports, settings, listeners, HandleCache()), clock, workers)
    housekeeping = Housekeeping(node.opened)
    housekeeping.start()
    yield node
    await housekeeping.stop()
    await node.close()


# -- scene 7 ----------------------------------------------------------------------------------------------------------

CAPACITY_BYTES = 6 << 20
VALUE = bytes(400_000)


async def lower_retention(node: RealNode, topic: str, retention_ms: int) -> None:
    change = api.IncrementalAlterConfigsRequest.AlterableConfig(
        name="retention.ms", config_operation=0, value=str(retention_ms)
    )
    resource = api.IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=2, resource_name=topic, configs=[change]
    )
    request = api.IncrementalAlterConfigsRequest(resources=[resource])
    answer = await node.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, request)
    assert answer.responses[0].error_code == ErrorCode.NONE, answer.responses[0].error_message


async def produce_until_refused(node: RealNode, topic: str) -> int:
    """How many records of `VALUE` the disk took before it was full."""
    for count in range(CAPACITY_BYTES // len(VALUE) + 1):
        outcome = await node.produce(topic, VALUE)
        if outcome.error_code != ErrorCode.NONE:
            assert outcome.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert "no space left" in outcome.error_message.lower()
            return count
    raise AssertionError("the disk was never full")


def test_scene_07_retention_lowered_live_frees_a_full_disk() -> None:
    async def scene() -> None:
        async with node_over(memory_disk(CAPACITY_BYTES)) as node:
            await node.create_topic("old", segment_bytes="1048576")
            await node.create_topic("kept")
            await node.produce("kept", b"precious")
            count = await produce_until_refused(node, "old")
            assert count > 5
            node.clock.advance(3600)
            assert (await node.produce("kept", VALUE)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert await values_in(node, "kept", 0) == {0: [b"precious"]}, "reads go on"

            await lower_retention(node, "old", 60_000)

            async def is_healed() -> None:
                while (await node.produce("kept", VALUE)).error_code != ErrorCode.NONE:
                    node.clock.advance(1)
                    await asyncio.sleep(0.01)

            await asyncio.wait_for(is_healed(), WAIT_S)
            assert node.node.partitions.leader_of("old", 0).log.log_start_offset == count
            assert (await node.produce("old", b"goes on")).base_offset == count

    asyncio.run(scene())


# -- scene 8 ----------------------------------------------------------------------------------------------------------


def test_scene_08_after_a_crash_a_flipped_bit_costs_its_own_partition_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        node = await RealNode.open(tmp_path, {})
        await node.create_topic("t", 2)
        for index, letter in itertools.product((0, 1), (b"a", b"b", b"c", b"d")):
            await node.produce("t", letter * 100, index=index)
        path = tmp_path / "t-1" / "00000000000000000000.log"
        data = bytearray(path.read_bytes())
        position = len(data) // 4 * 2  # Of the third batch: all are of one size.
        data[position + 80] ^= 1
        path.write_bytes(data)

        again = await RealNode.open(tmp_path, {})
        found = await values_in(again, "t", 0, 1)
        assert found == {0: [b"a" * 100, b"b" * 100, b"c" * 100, b"d" * 100], 1: [b"a" * 100, b"b" * 100]}
        assert f"rotten batch in {path} at position {position} (offsets 2 to 2)" in caplog.text
        assert (await again.produce("t", b"after", index=1)).base_offset == 2
        await again.close()

    asyncio.run(run())


# -- scene 10 ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_clean", [True, False], ids=["restart", "crash"])
def test_scene_10_sequence_rules_outlive_the_broker(tmp_path: Path, is_clean: bool) -> None:
    async def run() -> None:
        node = await RealNode.open(tmp_path, {})
        await node.create_topic("t")
        init = await node.ask(ApiKey.INIT_PRODUCER_ID, api.InitProducerIdRequest(transactional_id=None))
        who = {"producer_id": init.producer_id, "producer_epoch": init.producer_epoch}
        for sequence in (0, 2):
            assert (await node.produce("t", b"x", b"y", base_sequence=sequence, **who)).base_offset == sequence
        if is_clean:
            await node.close()

        again = await RealNode.open(tmp_path, {})
        duplicate = await again.produce("t", b"x", b"y", base_sequence=2, **who)
        assert (duplicate.error_code, duplicate.base_offset) == (ErrorCode.NONE, 2), "acknowledged with its offset"
        gap = await again.produce("t", b"x", base_sequence=5, **who)
        assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert (await again.produce("t", b"z", base_sequence=4, **who)).base_offset == 4, "last + 1"
        assert await values_in(again, "t", 0) == {0: [b"x", b"y", b"x", b"y", b"z"]}
        await again.close()

    asyncio.run(run())


# -- scene 17: in virtual time, so to the millisecond -----------------------------------------------------------------

ANSWER_S = 0.05  # What the simulated network and its client take.


async def create_and_connect(world: World) -> tuple[SimulatedNode, SimulatedClient, SimulatedClient]:
    """A node with the topic `orders`, a producer and a consumer."""
    node = SimulatedNode(world)
    await node.start()
    producer = SimulatedClient(node, "producer")
    topic = api.CreateTopicsRequest.CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
    answer = await producer.request(ApiKey.CREATE_TOPICS, api.CreateTopicsRequest(topics=[topic]))
    assert answer.topics[0].error_code == ErrorCode.NONE
    return node, producer, SimulatedClient(node, "consumer")


async def send(client: SimulatedClient, value: bytes) -> None:
    builder = BatchBuilder()
    builder.append(1_750_000_000_000, None, value)
    answer = await client.request(ApiKey.PRODUCE, produce_request("orders", builder.build()))
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


def test_scene_17_an_empty_long_poll_is_one_request_of_500_ms() -> None:
    world = World(17, worker_latency_seconds_max=0.0)

    async def main() -> None:
        node, _, consumer = await create_and_connect(world)
        begin, request_count = world.clock.monotonic(), 0
        while world.clock.monotonic() - begin < 10.0:  # As a consumer does that polls an empty topic for ten seconds.
            asked = world.clock.monotonic()
            answer = await consumer.request(ApiKey.FETCH, fetch_request("orders", {0: 0}, max_wait_ms=500))
            assert values_by_partition(answer) == {0: []}
            assert 0.5 <= world.clock.monotonic() - asked < 0.5 + ANSWER_S
            request_count += 1
        assert 18 <= request_count <= 20
        await node.stop()

    world.run(main())


def test_scene_17_data_ends_the_wait_at_once() -> None:
    world = World(17, worker_latency_seconds_max=0.0)

    async def main() -> None:
        node, producer, consumer = await create_and_connect(world)
        waiting = asyncio.ensure_future(
            consumer.request(ApiKey.FETCH, fetch_request("orders", {0: 0}, max_wait_ms=20_000))
        )
        await asyncio.sleep(7)
        assert not waiting.done()
        sent = world.clock.monotonic()
        await send(producer, b"at last")
        assert values_by_partition(await waiting) == {0: [b"at last"]}
        assert world.clock.monotonic() - sent < ANSWER_S
        await node.stop()

    world.run(main())


def test_scene_17_fetch_min_bytes_is_waited_for_and_no_longer_than_asked() -> None:
    world = World(17, worker_latency_seconds_max=0.0)

    async def main() -> None:
        node, producer, consumer = await create_and_connect(world)
        request = fetch_request("orders", {0: 0}, max_wait_ms=20_000, min_bytes=3000)
        waiting = asyncio.ensure_future(consumer.request(ApiKey.FETCH, request))
        for _ in range(2):
            await send(producer, bytes(1000))
            await asyncio.sleep(1)
            assert not waiting.done()
        await send(producer, bytes(1000))
        assert len(values_by_partition(await waiting)[0]) == 3

        asked = world.clock.monotonic()
        too_much = fetch_request("orders", {0: 0}, max_wait_ms=500, min_bytes=1 << 20)
        answer = await consumer.request(ApiKey.FETCH, too_much)
        assert len(values_by_partition(answer)[0]) == 3, "what there is, when the time is up"
        assert 0.5 <= world.clock.monotonic() - asked < 0.5 + ANSWER_S
        await node.stop()

    world.run(main())


# -- scene 58 ---------------------------------------------------------------------------------------------------------

PARTITION_COUNT = 1000


def test_scene_58_a_thousand_partitions_of_one_topic_are_led_written_read_and_found_again() -> None:
    async def scene() -> None:
        disk = memory_disk()
        async with node_over(disk) as node:
            await node.create_topic("wide", PARTITION_COUNT)
            for index in range(PARTITION_COUNT):
                outcome = await node.produce("wide", b"%d" % index, index=index)
                assert (outcome.error_code, outcome.base_offset) == (ErrorCode.NONE, 0)
        async with node_over(disk) as node:
            topic = api.MetadataRequest.MetadataRequestTopic(name="wide")
            answer = await node.ask(ApiKey.METADATA, api.MetadataRequest(topics=[topic]), BY_NAME)
            leaders = {one.partition_index: one.leader_id for one in answer.topics[0].partitions}
            assert leaders == dict.fromkeys(range(PARTITION_COUNT), node.node.node_id)
            found = await values_in(node, "wide", *range(PARTITION_COUNT))
            assert found == {index: [b"%d" % index] for index in range(PARTITION_COUNT)}

    asyncio.run(scene())
