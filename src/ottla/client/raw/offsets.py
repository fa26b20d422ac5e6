"""Offsets of many partitions: earliest, latest, by timestamp. Leaders are asked for all of theirs at once."""

from collections.abc import Mapping
from typing import Final

from ottla.base.errors import ErrorCode
from ottla.base.types import Offset, TimestampMs, TopicPartition
from ottla.client.errors import coded_error
from ottla.client.raw.address import Address
from ottla.client.raw.cluster import Cluster
from ottla.wire import api
from ottla.wire.apis import ApiKey

EARLIEST: Final = -2
LATEST: Final = -1


def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, TimestampMs], *, read_committed: bool
) -> dict[TopicPartition, Offset | None]:
    """None where no record is at or after the timestamp. With `read_committed` the latest is the last stable offset."""
    leaders = cluster.leaders({partition.topic for partition in wanted})
    by_leader: dict[Address, dict[TopicPartition, TimestampMs]] = {}
    for partition, timestamp in wanted.items():
        leader = leaders.get(partition)
        if leader is None:
            code = ErrorCode.LEADER_NOT_AVAILABLE if partition in leaders else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise coded_error(code, f"asking for an offset of {partition}")
        by_leader.setdefault(leader, {})[partition] = timestamp
    found: dict[TopicPartition, Offset | None] = {}
    for leader, asked in by_leader.items():
        found |= _ask(cluster, leader, asked, read_committed)
    return found


def _ask(
    cluster: Cluster, leader: Address, asked: Mapping[TopicPartition, TimestampMs], read_committed: bool
) -> dict[TopicPartition, Offset | None]:
    topics: dict[str, list[api.ListOffsetsRequest.ListOffsetsPartition]] = {}
    for partition, timestamp in asked.items():
        topics.setdefault(partition.topic, []).append(
            api.ListOffsetsRequest.ListOffsetsPartition(partition_index=partition.partition, timestamp=timestamp)
        )
    request = api.ListOffsetsRequest(
        isolation_level=int(read_committed),
        topics=[
            api.ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
    )
    answer = cluster.ask(ApiKey.LIST_OFFSETS, request, api.ListOffsetsResponse, at=leader)
    found: dict[TopicPartition, Offset | None] = {}
    for topic in answer.topics:
        for one in topic.partitions:
            partition = TopicPartition(topic.name, one.partition_index)
            if one.error_code != ErrorCode.NONE:
                raise coded_error(one.error_code, f"asking for an offset of {partition}")
            found[partition] = None if one.offset < 0 else one.offset
    return found
