"""OffsetCommit and TxnOffsetCommit: who may commit, and what is recorded of it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NO_TIMESTAMP, TimestampMs
from ottla.coordinator.groups.group import Group, GroupState
from ottla.coordinator.groups.group_records import offset_record
from ottla.coordinator.groups.settings import GroupSettings
from ottla.coordinator.machine import Decision, ProducerIdentity
from ottla.coordinator.records import CommittedOffset, CoordinatorRecord
from ottla.metadata.image_parts import TopicImage
from ottla.wire import api
from ottla.wire.hot_commits import CommitCall, PartitionCommit, TopicCommit, TopicCommitted, TopicKey

GROUP_NOT_FOUND_FROM: Final = 9  # Before that an unknown group is an illegal generation.

TransactionalTopic = api.TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
TransactionalPartition = api.TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition


KnownTopics: TypeAlias = Mapping[Any, TopicImage]
"""By what the requests of a version call them: names or ids."""


class Commits:
    def __init__(self, settings: GroupSettings) -> None:
        self._settings = settings

    def decide(
        self, group: Group | None, call: CommitCall, known: KnownTopics, *, version: int, now_ms: TimestampMs
    ) -> Decision[list[TopicCommitted]]:
        """Without a group, of somebody who only commits: the record makes one. Topics and partitions that there are not
        are refused beside the others."""
        (group_id, generation, member_id, instance_id, retention_ms), topics = call
        if group is not None:
            _check(group, member_id, instance_id, generation, is_transactional=False)
        elif generation >= 0:
            code = ErrorCode.GROUP_ID_NOT_FOUND if version >= GROUP_NOT_FOUND_FROM else ErrorCode.ILLEGAL_GENERATION
            raise ApiError(code, f"there is no group {group_id}")
        expire_timestamp = NO_TIMESTAMP if retention_ms < 0 else now_ms + retention_ms
        records: list[CoordinatorRecord] = []
        outcomes: list[TopicCommitted] = []
        for key, partitions in topics:
            topic = known.get(key)
            if topic is None:
                outcomes.append(_unknown(key, partitions))
                continue
            codes: list[tuple[int, int]] = []
            for partition, offset, leader_epoch, metadata in partitions:
                if partition not in topic.partitions:
                    codes.append((partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
                elif metadata and len(metadata) > self._settings.offset_metadata_chars_max:
                    codes.append((partition, ErrorCode.OFFSET_METADATA_TOO_LARGE))
                else:
                    committed = CommittedOffset(
                        offset, leader_epoch, metadata or "", now_ms, expire_timestamp, topic.id
                    )
                    records.append(offset_record(group_id, topic.name, partition, committed))
                    codes.append((partition, ErrorCode.NONE))
            outcomes.append((key, codes))
        return Decision(records, outcomes)

    def decide_in_transaction(
        self, group: Group | None, request: api.TxnOffsetCommitRequest, now_ms: TimestampMs
    ) -> Decision[api.TxnOffsetCommitResponse]:
        if not request.group_id:  # Clients of long ago commit under it, and they know no transactions.
            raise ApiError(ErrorCode.INVALID_GROUP_ID, "a group has a name")
        if group is not None:
            _check(group, request.member_id, request.group_instance_id, request.generation_id, is_transactional=True)
        elif request.generation_id >= 0:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION, f"there is no group {request.group_id}")
        records: list[CoordinatorRecord] = []
        response = api.TxnOffsetCommitResponse()
        for topic in request.topics:
            answers: list[TransactionalPartition] = []
            for partition in topic.partitions:
                answer = TransactionalPartition(partition_index=partition.partition_index)
                metadata = partition.committed_metadata or ""
                if len(metadata) > self._settings.offset_metadata_chars_max:
                    answer.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    committed = CommittedOffset(
                        partition.committed_offset, partition.committed_leader_epoch, metadata, now_ms
                    )
                    records.append(offset_record(request.group_id, topic.name, partition.partition_index, committed))
                answers.append(answer)
            response.topics.append(TransactionalTopic(name=topic.name, partitions=answers))
        return Decision(records, response, ProducerIdentity(request.producer_id, request.producer_epoch))


def refusals(topics: Sequence[TopicCommit], known: KnownTopics, code: ErrorCode) -> list[TopicCommitted]:
    """That code for every partition that there is."""
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return [
        (key, [(partition, code if partition in topic.partitions else unknown) for partition, *_ in partitions])
        if (topic := known.get(key)) is not None
        else _unknown(key, partitions)
        for key, partitions in topics
    ]


def _unknown(key: TopicKey, partitions: Sequence[PartitionCommit]) -> TopicCommitted:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if isinstance(key, str) else ErrorCode.UNKNOWN_TOPIC_ID
    return key, [(partition, code) for partition, *_ in partitions]


def _check(group: Group, member_id: str, instance_id: str | None, generation: int, *, is_transactional: bool) -> None:
    """`ApiError` unless this member may commit now; without members, anybody who claims no generation."""
    if generation < 0 and group.state is GroupState.EMPTY:
        return
    if generation >= 0 or member_id or instance_id is not None:
        group.require_member(member_id, instance_id)
        if generation != group.generation:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION, f"{group.group_id} is at generation {group.generation}")
    elif not is_transactional:  # Producers before KIP-447 do not say for which member they commit.
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"{group.group_id} has members: only they commit")
    if not is_transactional and group.state is GroupState.COMPLETING_REBALANCE:
        raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS, f"{group.group_id} is being rebalanced")
