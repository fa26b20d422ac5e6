"""OffsetCommit and TxnOffsetCommit: who may commit, and what is recorded of it."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NO_TIMESTAMP, LeaderEpoch, Offset, TimestampMs, TopicId
from ottla.coordinator.groups.group import Group, GroupState
from ottla.coordinator.groups.group_records import offset_record
from ottla.coordinator.groups.settings import GroupSettings
from ottla.coordinator.machine import Decision, ProducerIdentity
from ottla.coordinator.records import CoordinatorRecord
from ottla.wire import api
from ottla.wire.hot_commits import CommitCall, PartitionCommit

GROUP_NOT_FOUND_FROM: Final = 9  # Before that an unknown group is an illegal generation.

TransactionalTopic = api.TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
TransactionalPartition = api.TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition


class NamedTopic(NamedTuple):
    """What a request commits for a topic that exists."""

    name: str
    topic_id: TopicId
    partitions: Sequence[PartitionCommit]


class Commits:
    def __init__(self, settings: GroupSettings) -> None:
        self._settings = settings

    def decide(
        self, group: Group | None, call: CommitCall, topics: Iterable[NamedTopic], *, version: int, now_ms: TimestampMs
    ) -> Decision[list[ErrorCode]]:
        """One code for each partition. Without a group, of somebody who only commits: the record makes one."""
        group_id, generation, member_id, instance_id, retention_ms, _ = call
        if group is not None:
            _check(group, member_id, instance_id, generation, is_transactional=False)
        elif generation >= 0:
            code = ErrorCode.GROUP_ID_NOT_FOUND if version >= GROUP_NOT_FOUND_FROM else ErrorCode.ILLEGAL_GENERATION
            raise ApiError(code, f"there is no group {group_id}")
        expire_timestamp = NO_TIMESTAMP if retention_ms < 0 else now_ms + retention_ms
        records: list[CoordinatorRecord] = []
        codes: list[ErrorCode] = []
        for name, topic_id, partitions in topics:
            for partition, offset, leader_epoch, metadata in partitions:
                value = self._value(offset, leader_epoch, metadata, now_ms)
                if value is None:
                    codes.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
                    continue
                value.expire_timestamp = expire_timestamp
                value.topic_id = topic_id
                records.append(offset_record(group_id, name, partition, value))
                codes.append(ErrorCode.NONE)
        return Decision(records, codes)

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
                value = self._value(
                    partition.committed_offset, partition.committed_leader_epoch, partition.committed_metadata, now_ms
                )
                if value is None:
                    answer.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    records.append(offset_record(request.group_id, topic.name, partition.partition_index, value))
                answers.append(answer)
            response.topics.append(TransactionalTopic(name=topic.name, partitions=answers))
        return Decision(records, response, ProducerIdentity(request.producer_id, request.producer_epoch))

    def _value(
        self, offset: Offset, leader_epoch: LeaderEpoch, metadata: str | None, now_ms: TimestampMs
    ) -> api.OffsetCommitValue | None:
        """None when the text that goes with it is too large."""
        metadata = metadata or ""
        if len(metadata) > self._settings.offset_metadata_chars_max:
            return None
        return api.OffsetCommitValue(
            offset=offset, leader_epoch=leader_epoch, metadata=metadata, commit_timestamp=now_ms
        )


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
