"""Produce through a whole node: acknowledgements, refusals, duplicates, topic ids."""

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

from ottla.base.errors import ApiError, ErrorCode, ProtocolError
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.records import BatchBuilder, set_crc
from tests.unit.broker.real_node import RealNode, play, produce_request


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("acks", [1, -1])
def test_every_version_appends(tmp_path: Path, version: int, acks: int) -> None:
    async def scene(node: RealNode) -> None:
        topic_id = await node.create_topic("t", 2)
        request = produce_request("t", node.batch(b"a", b"b"), index=1, acks=acks)
        request.topic_data[0].topic_id = topic_id
        for expected in (0, 2):
            response = await node.ask(ApiKey.PRODUCE, request, version)
            outcome = response.responses[0].partition_responses[0]
            assert (outcome.index, outcome.error_code, outcome.base_offset) == (1, 0, expected)

    play(tmp_path, scene)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_versions_that_are_advertised_but_not_served_close_the_connection(tmp_path: Path, version: int) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        frame = (
            b"\x00\x00"
            + version.to_bytes(2, "big")
            + b"\x00\x00\x00\x01\x00\x01c"
            + b"\x00\x01\x00\x00\x03\xe8"
            + bytes(4)
        )
        with pytest.raises(ProtocolError):
            view = memoryview(frame)
            await node.dispatcher.answer(node.dispatcher.begin(view, node_peer()), view)

    play(tmp_path, scene)


def node_peer() -> Any:
    from tests.unit.broker.real_node import PEER

    return PEER


def test_acks_0_has_no_answer_and_an_error_closes(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        assert await node.parts(ApiKey.PRODUCE, produce_request("t", node.batch(b"a"), acks=0), 9) is None
        assert node.node.partitions.leader_of("t", 0).log.log_end_offset == 1
        with pytest.raises(ApiError):
            await node.parts(ApiKey.PRODUCE, produce_request("nope", node.batch(b"a"), acks=0), 9)

    play(tmp_path, scene)


def corrupt(batch: bytes) -> bytes:
    return batch[:-1] + bytes([batch[-1] ^ 1])


def with_count(batch: bytes, count: int) -> bytes:
    changed = bytearray(batch)
    changed[57:61] = count.to_bytes(4, "big")
    set_crc(changed)
    return bytes(changed)


def with_codec(batch: bytes, codec: int) -> bytes:
    changed = bytearray(batch)
    changed[22] = changed[22] & ~7 | codec
    set_crc(changed)
    return bytes(changed)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda batch: None, ErrorCode.INVALID_RECORD),
        (lambda batch: b"", ErrorCode.INVALID_RECORD),
        (lambda batch: batch[:40], ErrorCode.INVALID_RECORD),
        (corrupt, ErrorCode.CORRUPT_MESSAGE),
        (lambda batch: with_count(batch, 5), ErrorCode.INVALID_RECORD),
        (lambda batch: with_count(batch, 0), ErrorCode.INVALID_RECORD),
        (lambda batch: with_codec(batch, 6), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (lambda batch: batch + batch, ErrorCode.INVALID_RECORD),
    ],
)
def test_wrong_batches_are_refused_and_leave_nothing(tmp_path: Path, change: Any, code: ErrorCode) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        response = await node.ask(ApiKey.PRODUCE, produce_request("t", change(node.batch(b"abc"))), 9)
        outcome = response.responses[0].partition_responses[0]
        assert outcome.error_code == code
        assert outcome.error_message
        assert (await node.produce("t", b"fine")).base_offset == 0

    play(tmp_path, scene)


def test_size_limits(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t", max_message_bytes="1000")
        batch = node.batch(b"x" * 900)
        room = 1000 - len(batch)
        assert (await node.produce("t", b"x" * (900 + room))).error_code == 0
        assert (await node.produce("t", b"x" * (900 + room + 1))).error_code == ErrorCode.MESSAGE_TOO_LARGE

    play(tmp_path, scene)


def test_timestamps_out_of_range(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t", message_timestamp_before_max_ms="1000", message_timestamp_after_max_ms="1000")
        node.clock.advance(-10)
        old = node.batch(b"old")
        node.clock.advance(20)
        new = node.batch(b"new")
        node.clock.advance(-10)
        for batch in (old, new):
            response = await node.ask(ApiKey.PRODUCE, produce_request("t", batch), 9)
            assert response.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_TIMESTAMP
        assert (await node.produce("t", b"now")).error_code == 0

    play(tmp_path, scene)


def test_log_append_time_is_answered(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t", message_timestamp_type="LogAppendTime")
        assert (await node.produce("t", b"a")).log_append_time_ms == node.clock.now_ms()
        await node.create_topic("u")
        assert (await node.produce("u", b"a")).log_append_time_ms == -1

    play(tmp_path, scene)


def test_unknown_topics_partitions_and_acks(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        assert (await node.produce("nope", b"a")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (await node.produce("t", b"a", index=1)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (await node.produce("t", b"a", acks=2)).error_code == ErrorCode.INVALID_REQUIRED_ACKS
        by_id = await node.ask(ApiKey.PRODUCE, produce_request("t", node.batch(b"a")), 13)
        assert by_id.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID

    play(tmp_path, scene)


def test_one_bad_partition_does_not_hurt_the_others(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t", 3)
        request = produce_request("t", node.batch(b"a"))
        request.topic_data[0].partition_data = [
            api.ProduceRequest.PartitionProduceData(index=index, records=records)
            for index, records in ((0, node.batch(b"a")), (1, b"junk"), (9, node.batch(b"b")), (2, node.batch(b"c")))
        ]
        response = await node.ask(ApiKey.PRODUCE, request, 9)
        codes = [one.error_code for one in response.responses[0].partition_responses]
        assert codes == [0, ErrorCode.INVALID_RECORD, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]

    play(tmp_path, scene)


# -- idempotence (scene 10) -------------------------------------------------------------------------------------------


def test_sequence_rules(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        init = await node.ask(ApiKey.INIT_PRODUCER_ID, api.InitProducerIdRequest(transactional_id=None))
        assert init.error_code == 0
        who = {"producer_id": init.producer_id, "producer_epoch": init.producer_epoch}
        for sequence in range(7):
            assert (await node.produce("t", b"%d" % sequence, base_sequence=sequence, **who)).base_offset == sequence
        duplicate = await node.produce("t", b"4", base_sequence=4, **who)
        assert (duplicate.error_code, duplicate.base_offset) == (0, 4)
        gap = await node.produce("t", b"x", base_sequence=9, **who)
        assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert node.node.partitions.leader_of("t", 0).log.log_end_offset == 7
        fresh = await node.produce("t", b"y", base_sequence=0, producer_id=who["producer_id"], producer_epoch=1)
        assert fresh.base_offset == 7
        stale = await node.produce("t", b"z", base_sequence=7, **who)
        assert stale.error_code == ErrorCode.INVALID_PRODUCER_EPOCH

    play(tmp_path, scene)


def test_producer_ids_are_never_given_twice_even_across_restarts(tmp_path: Path) -> None:
    async def run() -> None:
        seen: set[int] = set()
        for _ in range(3):
            node = await RealNode.open(tmp_path, {})
            for _ in range(3):
                init = await node.ask(ApiKey.INIT_PRODUCER_ID, api.InitProducerIdRequest(transactional_id=None))
                assert init.producer_id not in seen
                seen.add(init.producer_id)
            await node.close()

    asyncio.run(run())


def test_describe_producers(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        await node.produce("t", b"a", b"b", producer_id=77, producer_epoch=3, base_sequence=0)
        topics = [api.DescribeProducersRequest.TopicRequest(name="t", partition_indexes=[0, 5])]
        response = await node.ask(ApiKey.DESCRIBE_PRODUCERS, api.DescribeProducersRequest(topics=topics))
        known, unknown = response.topics[0].partitions
        (producer,) = known.active_producers
        assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (77, 3, 1)
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    play(tmp_path, scene)


# -- acks=all and the disk --------------------------------------------------------------------------------------------


def test_acks_all_waits_for_the_fsync_and_acks_1_does_not(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t", flush_messages="1")
        node.workers.hold()
        assert (await node.produce("t", b"one", acks=1)).error_code == 0
        waiting = asyncio.create_task(node.produce("t", b"all", acks=-1))
        await asyncio.sleep(0.02)
        assert not waiting.done()
        node.workers.release()
        assert (await asyncio.wait_for(waiting, 5)).base_offset == 1

    play(tmp_path, scene)


def test_timeout_ms_bounds_the_wait(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t", flush_messages="1")
        node.workers.hold()
        request = produce_request("t", node.batch(b"a"))
        request.timeout_ms = 20
        response = await asyncio.wait_for(node.ask(ApiKey.PRODUCE, request, 9), 5)
        assert response.responses[0].partition_responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT
        node.workers.release()

    play(tmp_path, scene)


def test_a_client_that_hangs_up_leaves_no_failures_that_nobody_looks_at(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        unseen: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context["message"]))
        await node.create_topic("t", 3, flush_messages="1")
        node.workers.hold()
        request = produce_request("t", node.batch(b"a"))
        request.timeout_ms = 20
        (topic,) = request.topic_data
        data = api.ProduceRequest.PartitionProduceData
        topic.partition_data = [data(index=index, records=node.batch(b"a")) for index in range(3)]
        waiting = asyncio.create_task(node.ask(ApiKey.PRODUCE, request, 9))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0.05)
        node.workers.release()
        del waiting
        gc.collect()
        assert unseen == []

    play(tmp_path, scene)


def test_transactional_records_need_a_transactional_id(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        outcome = await node.produce("t", b"a", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
        assert outcome.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    play(tmp_path, scene)


def test_clients_do_not_write_to_internal_topics(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        for key_type, topic in ((0, "__consumer_offsets"), (1, "__transaction_state")):
            await node.ask(
                ApiKey.FIND_COORDINATOR, api.FindCoordinatorRequest(key_type=key_type, coordinator_keys=["k"])
            )
            assert (await node.produce(topic, b"a")).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    play(tmp_path, scene)


def test_a_request_does_not_overtake_one_that_waits_for_another_partition(tmp_path: Path) -> None:
    """The first request waits for a roll of partition 0; its batch for partition 1 has its place all the same."""

    async def scene(node: RealNode) -> None:
        await node.create_topic("t", partitions=2, internal_segment_bytes="300")
        await node.produce("t", b"x" * 250, index=0)
        node.workers.hold()
        both = api.ProduceRequest(
            acks=1,
            timeout_ms=1000,
            topic_data=[
                api.ProduceRequest.TopicProduceData(
                    name="t",
                    partition_data=[
                        api.ProduceRequest.PartitionProduceData(index=index, records=node.batch(b"first" * 20))
                        for index in (0, 1)
                    ],
                )
            ],
        )
        waiting = asyncio.ensure_future(node.ask(ApiKey.PRODUCE, both, 9))
        await asyncio.sleep(0)
        second = await node.produce("t", b"second", index=1, acks=1)
        node.workers.release()
        first = (await waiting).responses[0].partition_responses
        assert [one.error_code for one in first] == [0, 0]
        assert first[1].base_offset < second.base_offset

    play(tmp_path, scene)


def test_a_producer_learns_which_records_have_no_key(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t", cleanup_policy="compact")
        builder = BatchBuilder()
        for number in range(6):
            builder.append(node.clock.now_ms(), None if number in (1, 4) else b"k", b"v")
        response = await node.ask(ApiKey.PRODUCE, produce_request("t", bytes(builder.build())), 9)
        answer = response.responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.INVALID_RECORD
        assert [one.batch_index for one in answer.record_errors] == [1, 4]

    play(tmp_path, scene)
