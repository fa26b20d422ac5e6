"""ListOffsets v1–11, OffsetForLeaderEpoch v2–4, DeleteRecords v0–2.

Look-ups by timestamp read indexes and records, so they run in a worker. There is no tiered storage yet: the earliest local
offset is the earliest one, and nothing is the latest tiered offset. Readers of committed data find nothing behind the last
stable offset; followers find the log end. A new leader whose watermark has not come to its own epoch yet does not know
the end that its predecessor has told: OFFSET_NOT_AVAILABLE (KIP-207).
"""

import asyncio
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NO_OFFSET, NO_TIMESTAMP, LeaderEpoch, Offset, TimestampMs
from ottla.broker.node import Node
from ottla.broker.request import Api, RequestContext
from ottla.replica.partition import Partition
from ottla.wire import api
from ottla.wire.apis import ApiKey

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
READ_COMMITTED: Final = 1
OFFSET_NOT_AVAILABLE_FROM: Final = 5
ANY_REPLICA: Final = -2  # In the place of a replica's id: Kafka's own for debugging.

Found = tuple[TimestampMs, Offset, LeaderEpoch]
_NOTHING: Final[Found] = (NO_TIMESTAMP, NO_OFFSET, -1)


async def list_offsets(node: Node, context: RequestContext, request: api.ListOffsetsRequest) -> api.ListOffsetsResponse:
    response = api.ListOffsetsResponse()
    for topic in request.topics:
        answers: list[api.ListOffsetsResponse.ListOffsetsPartitionResponse] = []
        for wanted in topic.partitions:
            answer = api.ListOffsetsResponse.ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
            try:
                if request.replica_id == ANY_REPLICA:
                    answer.offset, answer.leader_epoch = _own_end(node, topic.name, wanted.partition_index)
                    answers.append(answer)
                    continue
                partition = node.partitions.leader_of(topic.name, wanted.partition_index)
                _require_epoch(partition, wanted.current_leader_epoch)
                is_follower = partition.follower(request.replica_id) is not None
                end = partition.log.log_end_offset if is_follower else _visible_end(partition, request.isolation_level)
                answer.timestamp, answer.offset, answer.leader_epoch = await _find(
                    node, partition, wanted.timestamp, end
                )
                if not is_follower:
                    _require_known_end(partition, wanted.timestamp, answer.offset, context.api_version)
            except ApiError as error:
                answer = api.ListOffsetsResponse.ListOffsetsPartitionResponse(
                    partition_index=wanted.partition_index, error_code=error.code
                )
            answers.append(answer)
        response.topics.append(api.ListOffsetsResponse.ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return response


def _own_end(node: Node, topic: str, index: int) -> tuple[Offset, LeaderEpoch]:
    """How far our own log goes, whoever leads: the controller compares where nobody surely has every record."""
    partition = node.partitions.find(topic, index)
    if partition is None:
        raise node.partitions.refusal(topic, index)
    return partition.log.durable_end_offset, partition.log.last_record_epoch


def _visible_end(partition: Partition, isolation_level: int) -> Offset:
    return partition.last_stable_offset if isolation_level == READ_COMMITTED else partition.high_watermark


def _require_known_end(partition: Partition, timestamp: TimestampMs, found: Offset, api_version: int) -> None:
    """What lies between our watermark and the start of our epoch may be committed, and known to consumers."""
    leadership = partition.leadership
    if leadership is None or partition.high_watermark >= leadership.epoch_start_offset:
        return
    if timestamp == LATEST or (found == NO_OFFSET and (timestamp >= 0 or timestamp == MAX_TIMESTAMP)):
        is_new = api_version >= OFFSET_NOT_AVAILABLE_FROM
        code = ErrorCode.OFFSET_NOT_AVAILABLE if is_new else ErrorCode.LEADER_NOT_AVAILABLE
        raise ApiError(code, f"{partition.topic_partition}: the new leader does not know yet what is committed")


async def _find(node: Node, partition: Partition, timestamp: TimestampMs, visible_end: Offset) -> Found:
    log = partition.log
    match timestamp:
        case -1:  # LATEST
            return NO_TIMESTAMP, visible_end, partition.leader_epoch
        case -2 | -4:  # EARLIEST, EARLIEST_LOCAL
            return NO_TIMESTAMP, log.log_start_offset, log.epochs.epoch_of(log.log_start_offset)
        case -3:  # MAX_TIMESTAMP
            found = await node.workers.run(log.offset_of_max_timestamp)
        case -5:  # LATEST_TIERED
            return _NOTHING
        case -6:  # EARLIEST_PENDING_UPLOAD
            return _NOTHING
        case _ if timestamp < 0:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {timestamp} has no meaning")
        case _:
            found = await node.workers.run(log.offset_for_timestamp, timestamp)
    if found is None or found.offset >= visible_end:
        return _NOTHING
    return found.timestamp, found.offset, log.epochs.epoch_of(found.offset)


def _require_epoch(partition: Partition, current_leader_epoch: LeaderEpoch) -> None:
    code = partition.check_leader_epoch(current_leader_epoch)
    if code:
        raise ApiError(code, f"{partition.topic_partition} is at leader epoch {partition.leader_epoch}")


async def offset_for_leader_epoch(
    node: Node, context: RequestContext, request: api.OffsetForLeaderEpochRequest
) -> api.OffsetForLeaderEpochResponse:
    response = api.OffsetForLeaderEpochResponse()
    for topic in request.topics:
        answers: list[api.OffsetForLeaderEpochResponse.EpochEndOffset] = []
        for wanted in topic.partitions:
            answer = api.OffsetForLeaderEpochResponse.EpochEndOffset(partition=wanted.partition)
            try:
                partition = node.partitions.leader_of(topic.topic, wanted.partition)
                _require_epoch(partition, wanted.current_leader_epoch)
                answer.leader_epoch, answer.end_offset = partition.log.end_offset_for_epoch(wanted.leader_epoch)
            except ApiError as error:
                answer.error_code = error.code
            answers.append(answer)
        response.topics.append(
            api.OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic=topic.topic, partitions=answers)
        )
    return response


async def delete_records(
    node: Node, context: RequestContext, request: api.DeleteRecordsRequest
) -> api.DeleteRecordsResponse:
    """Answered when all live replicas have done it (KIP-107); they hear of it with their fetches."""
    timeout_seconds = request.timeout_ms / 1000
    asked = [(topic.name, wanted) for topic in request.topics for wanted in topic.partitions]
    results = await asyncio.gather(*(_delete_records(node, name, wanted, timeout_seconds) for name, wanted in asked))
    answers = iter(results)
    return api.DeleteRecordsResponse(
        topics=[
            api.DeleteRecordsResponse.DeleteRecordsTopicResult(
                name=topic.name, partitions=[next(answers) for _ in topic.partitions]
            )
            for topic in request.topics
        ]
    )


async def _delete_records(
    node: Node, topic: str, wanted: api.DeleteRecordsRequest.DeleteRecordsPartition, timeout_seconds: float
) -> api.DeleteRecordsResponse.DeleteRecordsPartitionResult:
    answer = api.DeleteRecordsResponse.DeleteRecordsPartitionResult(
        partition_index=wanted.partition_index, low_watermark=NO_OFFSET
    )
    try:
        if node.is_internal(topic) or not node.may_delete_records(topic):
            raise ApiError(ErrorCode.POLICY_VIOLATION, f"records of {topic} cannot be deleted: it is compacted")
        partition = node.partitions.leader_of(topic, wanted.partition_index)
        start = await partition.delete_records_before(wanted.offset)
        answer.low_watermark = await partition.wait_deleted_before(start, timeout_seconds)
    except ApiError as error:
        answer.error_code = error.code
    return answer


APIS: Final[dict[int, Api]] = {
    ApiKey.LIST_OFFSETS: Api(versions=(1, 11), handle=list_offsets),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Api(versions=(2, 4), handle=offset_for_leader_epoch),
    ApiKey.DELETE_RECORDS: Api(versions=(0, 2), handle=delete_records),
}
