"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords, DescribeLogDirs, FindCoordinator, ApiVersions through a whole node."""

from pathlib import Path
from typing import Any

import pytest

from ottla.base.errors import ErrorCode, ProtocolError
from ottla.broker.dispatch import APIS
from ottla.wire import api
from ottla.wire.apis import API_INFO, ApiKey
from ottla.wire.frame import decode_response
from tests.unit.broker.real_node import PEER, RealNode, content, play


async def offset_at(node: RealNode, timestamp: int, version: int | None = None, **fields: Any) -> Any:
    wanted = api.ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=timestamp, **fields)
    topics = [api.ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[wanted])]
    response = await node.ask(ApiKey.LIST_OFFSETS, api.ListOffsetsRequest(topics=topics), version)
    return response.topics[0].partitions[0]


@pytest.mark.parametrize("version", range(1, 12))
def test_list_offsets_in_every_version(tmp_path: Path, version: int) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        start = node.clock.now_ms()
        for number in range(5):
            await node.produce("t", b"%d" % number)
            node.clock.advance(10)
        assert (await offset_at(node, -1, version)).offset == 5
        assert (await offset_at(node, -2, version)).offset == 0
        found = await offset_at(node, start + 15_000, version)
        assert (found.offset, found.timestamp) == (2, start + 20_000)
        assert (await offset_at(node, start + 99_000, version)).offset == -1

    play(tmp_path, scene)


def test_the_special_timestamps(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        await node.produce("t", b"a")
        node.clock.advance(50)
        newest = node.clock.now_ms()
        await node.produce("t", b"b")
        node.clock.advance(-20)
        await node.produce("t", b"late")
        latest = await offset_at(node, -3)
        assert (latest.offset, latest.timestamp) == (1, newest)
        assert (await offset_at(node, -4)).offset == 0
        assert (await offset_at(node, -5)).offset == -1
        assert (await offset_at(node, -1, current_leader_epoch=9)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH

    play(tmp_path, scene)


def test_offset_for_leader_epoch(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        await node.produce("t", b"a", b"b")
        wanted = [
            api.OffsetForLeaderEpochRequest.OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
            for epoch in (0, 5)
        ]
        topics = [api.OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic="t", partitions=wanted)]
        response = await node.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, api.OffsetForLeaderEpochRequest(topics=topics))
        current, future = response.topics[0].partitions
        assert (current.leader_epoch, current.end_offset) == (0, 2)
        assert (future.leader_epoch, future.end_offset) == (-1, -1)

    play(tmp_path, scene)


async def delete_before(node: RealNode, offset: int) -> Any:
    wanted = api.DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=offset)
    topics = [api.DeleteRecordsRequest.DeleteRecordsTopic(name="t", partitions=[wanted])]
    response = await node.ask(ApiKey.DELETE_RECORDS, api.DeleteRecordsRequest(topics=topics))
    return response.topics[0].partitions[0]


def test_delete_records(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        await node.produce("t", b"a", b"b", b"c")
        assert (await delete_before(node, 2)).low_watermark == 2
        assert (await offset_at(node, -2)).offset == 2
        assert (await delete_before(node, 9)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (await delete_before(node, -1)).low_watermark == 3

    play(tmp_path, scene)


def test_records_of_a_compacted_topic_cannot_be_deleted(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t", cleanup_policy="compact")
        assert (await delete_before(node, 0)).error_code == ErrorCode.POLICY_VIOLATION

    play(tmp_path, scene)


def test_describe_log_dirs(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t", 2)
        await node.produce("t", b"a" * 500)
        everything = await node.ask(ApiKey.DESCRIBE_LOG_DIRS, api.DescribeLogDirsRequest(topics=None))
        (directory,) = everything.results
        assert directory.log_dir == str(tmp_path)
        assert 0 < directory.usable_bytes <= directory.total_bytes
        sizes = {one.partition_index: one.partition_size for topic in directory.topics for one in topic.partitions}
        assert sizes[0] > 500 and sizes[1] == 0
        asked = [api.DescribeLogDirsRequest.DescribableLogDirTopic(topic="t", partitions=[1])]
        some = await node.ask(ApiKey.DESCRIBE_LOG_DIRS, api.DescribeLogDirsRequest(topics=asked))
        assert [one.partition_index for one in some.results[0].topics[0].partitions] == [1]

    play(tmp_path, scene)


def test_api_versions_tells_exactly_what_is_served(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        response = await node.ask(ApiKey.API_VERSIONS, api.ApiVersionsRequest())
        told = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
        assert told == {key: row.versions for key, row in APIS.items() if not row.is_internal}
        for key, (low, high) in told.items():
            spoken = API_INFO[key].versions
            assert (low == 0 if key == ApiKey.PRODUCE else spoken.low <= low) and high <= spoken.high
        assert {one.name for one in response.finalized_features} >= {"metadata.version", "transaction.version"}

    play(tmp_path, scene)


def test_an_unknown_api_versions_version_is_answered_in_version_0(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        frame = memoryview(b"\x00\x12\x00\x63\x00\x00\x00\x05\x00\x01c\x00" + b"whatever comes")
        parts = await node.dispatcher.answer(node.dispatcher.begin(frame, PEER), frame)
        assert parts is not None
        correlation_id, response = decode_response(ApiKey.API_VERSIONS, 0, memoryview(content(parts[0]))[4:])
        assert correlation_id == 5
        assert isinstance(response, api.ApiVersionsResponse)
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert response.api_keys

    play(tmp_path, scene)


def test_what_is_not_served_closes_the_connection(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        for key, version in ((ApiKey.VOTE, 0), (ApiKey.FETCH, 99), (ApiKey.METADATA, -1)):
            frame = key.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True) + b"\x00\x00\x00\x05\xff\xff\x00"
            with pytest.raises(ProtocolError):
                node.dispatcher.begin(memoryview(frame), PEER)

    play(tmp_path, scene)
