"""Committed offsets of a group without members: read them, and commit as a simple consumer does.

Topics go by name in older versions of these requests and by id in newer ones; both are filled in, and the version that
broker and we agree on takes the one it knows.
"""

from collections.abc import Iterable, Mapping
from uuid import UUID

from ottla.base.errors import ErrorCode
from ottla.base.types import Offset, TopicPartition
from ottla.client.errors import coded_error
from ottla.client.raw.cluster import Cluster, CoordinatorKind
from ottla.wire import api
from ottla.wire.apis import ApiKey


def fetch_offsets(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, Offset]:
    """Only of those partitions that the group has committed."""
    by_topic = _by_topic(partitions)
    ids = _topic_ids(cluster, by_topic)
    group = api.OffsetFetchRequest.OffsetFetchRequestGroup(
        group_id=group_id,
        topics=[
            api.OffsetFetchRequest.OffsetFetchRequestTopics(name=topic, topic_id=ids[topic], partition_indexes=indexes)
            for topic, indexes in by_topic.items()
        ],
    )
    request = api.OffsetFetchRequest(groups=[group], require_stable=True)
    at = cluster.coordinator(CoordinatorKind.GROUP, group_id)
    (answer,) = cluster.ask(ApiKey.OFFSET_FETCH, request, api.OffsetFetchResponse, at=at).groups
    _check(answer.error_code, group_id)
    names = {topic_id: topic for topic, topic_id in ids.items()}
    found: dict[TopicPartition, Offset] = {}
    for topic in answer.topics:
        for one in topic.partitions:
            _check(one.error_code, group_id)
            if one.committed_offset >= 0:
                found[TopicPartition(topic.name or names[topic.topic_id], one.partition_index)] = one.committed_offset
    return found


def commit_offsets(cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, Offset]) -> None:
    by_topic = _by_topic(offsets)
    ids = _topic_ids(cluster, by_topic)
    request = api.OffsetCommitRequest(
        group_id=group_id,
        topics=[
            api.OffsetCommitRequest.OffsetCommitRequestTopic(
                name=topic,
                topic_id=ids[topic],
                partitions=[
                    api.OffsetCommitRequest.OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offsets[TopicPartition(topic, index)]
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic.items()
        ],
    )
    at = cluster.coordinator(CoordinatorKind.GROUP, group_id)
    answer = cluster.ask(ApiKey.OFFSET_COMMIT, request, api.OffsetCommitResponse, at=at)
    for topic in answer.topics:
        for one in topic.partitions:
            _check(one.error_code, group_id)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for partition in partitions:
        by_topic.setdefault(partition.topic, []).append(partition.partition)
    return by_topic


def _topic_ids(cluster: Cluster, topics: Iterable[str]) -> dict[str, UUID]:
    return {topic.name or "": topic.topic_id for topic in cluster.metadata(topics).topics}


def _check(error_code: int, group_id: str) -> None:
    if error_code != ErrorCode.NONE:
        raise coded_error(error_code, f"asking the coordinator of group {group_id}")
