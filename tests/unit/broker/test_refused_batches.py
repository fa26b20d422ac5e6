"""A refused batch is not overtaken by those behind it: a log that does not know their producer would take them in."""

import asyncio
from pathlib import Path
from typing import Any

from ottla.base.errors import ErrorCode
from ottla.broker.refused_batches import REFUSALS_MAX, REMEMBERED_SECONDS
from ottla.wire.apis import ApiKey
from ottla.wire.records import BatchBuilder
from tests.unit.broker.real_node import RealNode, play, produce_request


async def produce(node: RealNode, sequence: int, *, producer_id: int = 7, epoch: int = 0) -> Any:
    builder = BatchBuilder(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    builder.append(node.clock.now_ms(), b"key", b"%d" % sequence)
    response = await node.ask(ApiKey.PRODUCE, produce_request("t", bytes(builder.build())), 9)
    return response.responses[0].partition_responses[0]


async def refuse(node: RealNode, sequence: int, *, producer_id: int = 7) -> None:
    """The partition has too few replicas for as long as the batch takes to arrive."""
    partition = node.node.partitions.leader_of("t", 0)
    partition.is_short_of_replicas = True
    refused = await produce(node, sequence, producer_id=producer_id)
    assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    partition.is_short_of_replicas = False


def test_what_was_in_flight_behind_it_is_out_of_order(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        for sequence in (0, 1):
            await refuse(node, sequence)
        for sequence in (2, 1):
            assert (await produce(node, sequence)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert [(await produce(node, sequence)).base_offset for sequence in (0, 1, 2, 0)] == [0, 1, 2, 0]

    play(tmp_path, scene)


def test_a_partition_that_was_not_known_yet(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        assert (await produce(node, 0)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await node.create_topic("t")
        assert (await produce(node, 1)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert (await produce(node, 0)).error_code == 0

    play(tmp_path, scene)


def test_one_that_waited_and_was_refused_then(tmp_path: Path) -> None:
    """On a compacted topic a batch is looked into first; meanwhile the partition is led elsewhere, then here again."""

    async def scene(node: RealNode) -> None:
        await node.create_topic("t", cleanup_policy="compact")
        partition = node.node.partitions.leader_of("t", 0)
        node.workers.hold()
        waiting = asyncio.create_task(produce(node, 0))
        await asyncio.sleep(0)
        partition.is_leading = False
        node.workers.release()
        assert (await waiting).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        partition.is_leading = True
        assert (await produce(node, 1)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert [(await produce(node, sequence)).base_offset for sequence in (0, 1)] == [0, 1]

    play(tmp_path, scene)


def test_one_that_is_refused_for_what_it_holds_does_not_come_again(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t", max_message_bytes="100")
        who = {"producer_id": 7, "producer_epoch": 0}
        too_large = await node.produce("t", b"x" * 100, base_sequence=0, **who)
        assert too_large.error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert (await produce(node, 1)).error_code == 0

    play(tmp_path, scene)


def test_others_and_other_epochs_are_not_concerned(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        await refuse(node, 4)
        assert (await produce(node, 5, producer_id=8)).error_code == 0
        assert (await produce(node, 9, epoch=1)).error_code == 0

    play(tmp_path, scene)


def test_it_is_forgotten_in_time(tmp_path: Path) -> None:
    """What comes so much later was not in flight: its producer's records may have been lost or deleted here."""

    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        await refuse(node, 4)
        node.clock.advance(REMEMBERED_SECONDS)
        assert (await produce(node, 9)).error_code == 0
        assert not node.node.refused_batches.refusals

    play(tmp_path, scene)


def test_no_more_than_so_many_are_remembered(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        refused_batches = node.node.refused_batches
        for producer_id in range(REFUSALS_MAX + 1):
            batch = node.batch(b"", producer_id=producer_id, producer_epoch=0, base_sequence=0)
            refused_batches.note("t", 0, memoryview(batch), ErrorCode.NOT_ENOUGH_REPLICAS)
        assert len(refused_batches.refusals) == REFUSALS_MAX
        assert (await produce(node, 1, producer_id=0)).error_code == 0
        assert (await produce(node, 1, producer_id=1)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    play(tmp_path, scene)
