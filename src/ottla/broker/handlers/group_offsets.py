"""OffsetCommit v2–10, OffsetFetch v1–10, OffsetDelete v0: what groups have read.

From version 10 on topics go by their ids. An offset that was committed for a topic of the same name which is gone by now
is not found: its number means nothing in the new one.
"""

from collections.abc import Iterable
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NO_EPOCH, NO_OFFSET, ZERO_TOPIC_ID
from ottla.broker.handlers.groups import member_partition
from ottla.broker.node import Node
from ottla.broker.request import Api, Parts, RequestContext
from ottla.coordinator.groups.commit import KnownTopics, refusals
from ottla.coordinator.groups.machine import GroupMachine
from ottla.coordinator.machine import Decision
from ottla.metadata.image import MetadataImage
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.hot_commits import TOPIC_IDS_FROM, CommitCall, decode_commit, encode_committed, refused_commit

BATCHED_FETCH_FROM: Final = 8

GroupFetch = api.OffsetFetchRequest.OffsetFetchRequestGroup
FetchedGroup = api.OffsetFetchResponse.OffsetFetchResponseGroup
FetchedTopic = api.OffsetFetchResponse.OffsetFetchResponseTopics
FetchedPartition = api.OffsetFetchResponse.OffsetFetchResponsePartitions


# -- commit --------------------------------------------------------------------------------------------------------


async def offset_commit(node: Node, context: RequestContext, call: CommitCall) -> Parts:
    try:
        index = await node.coordinators.wait_group_partition(call[0].group_id)
    except ApiError as error:
        return _refused(node, context, call, error)
    return _commit(node, context, call, index)


def _commit_at_once(node: Node, context: RequestContext, frame: memoryview) -> Parts | None:
    call = decode_commit(frame, context.body_position, context.api_version)
    try:
        index = node.coordinators.group_partition(call[0].group_id)
    except ApiError as error:
        return _refused(node, context, call, error)
    return _commit(node, context, call, index) if node.coordinators.groups.is_ready(index) else None


def _commit(node: Node, context: RequestContext, call: CommitCall, index: int) -> Parts:
    version = context.api_version
    known = _known_topics(node, version)
    try:
        outcomes, context.committed = node.coordinators.groups.submit_gathered(
            index, lambda machine: machine.decide_commit(call, known, version=version)
        )
    except ApiError as error:
        return _refused(node, context, call, error)
    return [encode_committed(context.correlation_id, version, outcomes)]


def _refused(node: Node, context: RequestContext, call: CommitCall, error: ApiError) -> Parts:
    _, topics = call
    version = context.api_version
    outcomes = refusals(topics, _known_topics(node, version), error.code)
    return [encode_committed(context.correlation_id, version, outcomes)]


def _known_topics(node: Node, version: int) -> KnownTopics:
    return node.image.topics_by_id if version >= TOPIC_IDS_FROM else node.image.topics


def _refuse(parts: Parts, version: int, code: ErrorCode) -> Parts:
    """What was decided is not known to be committed."""
    refused: Parts = []
    for part in parts:
        assert isinstance(part, bytes), "one frame of `offset_commit`"
        refused.append(refused_commit(part, version, code))
    return refused


# -- fetch ---------------------------------------------------------------------------------------------------------


async def offset_fetch(node: Node, context: RequestContext, request: api.OffsetFetchRequest) -> api.OffsetFetchResponse:
    if context.api_version < BATCHED_FETCH_FROM:
        topics = None
        if request.topics is not None:
            topics = [
                api.OffsetFetchRequest.OffsetFetchRequestTopics(
                    name=topic.name, partition_indexes=topic.partition_indexes
                )
                for topic in request.topics
            ]
        wanted = GroupFetch(group_id=request.group_id, topics=topics)
        return _unbatched(await _fetch(node, wanted, request.require_stable, by_id=False))
    by_id = context.api_version >= TOPIC_IDS_FROM
    return api.OffsetFetchResponse(
        groups=[await _fetch(node, group, request.require_stable, by_id=by_id) for group in request.groups]
    )


async def _fetch(node: Node, wanted: GroupFetch, require_stable: bool, *, by_id: bool) -> FetchedGroup:
    reader = _OffsetReader(node.image, wanted, require_stable, by_id)
    try:
        index = await node.coordinators.wait_group_partition(wanted.group_id)
        return await node.coordinators.groups.submit(index, reader.read)
    except ApiError as error:
        return FetchedGroup(group_id=wanted.group_id, error_code=error.code)


class _OffsetReader:
    """Reads what one group has committed."""

    def __init__(self, image: MetadataImage, wanted: GroupFetch, require_stable: bool, by_id: bool) -> None:
        self._image = image
        self._wanted = wanted
        self._require_stable = require_stable
        self._by_id = by_id

    def read(self, machine: GroupMachine) -> Decision[FetchedGroup]:
        wanted = self._wanted
        found = FetchedGroup(group_id=wanted.group_id)
        if wanted.topics is None:
            group = machine.group(wanted.group_id)
            for name, partitions in ({} if group is None else group.offsets or {}).items():
                topic = self._image.topics.get(name)
                if not self._by_id or topic is not None:
                    found.topics.append(self._topic(machine, name, sorted(partitions)))
            return Decision((), found)
        for asked in wanted.topics:
            name = asked.name
            if self._by_id:
                topic = self._image.topics_by_id.get(asked.topic_id)
                if topic is None:
                    found.topics.append(_unknown_id(asked))
                    continue
                name = topic.name
            found.topics.append(self._topic(machine, name, asked.partition_indexes))
        return Decision((), found)

    def _topic(self, machine: GroupMachine, name: str, partitions: Iterable[int]) -> FetchedTopic:
        topic = self._image.topics.get(name)
        topic_id = ZERO_TOPIC_ID if topic is None else topic.id
        group = machine.group(self._wanted.group_id)
        answers: list[FetchedPartition] = []
        for index in partitions:
            answer = FetchedPartition(
                partition_index=index, committed_offset=NO_OFFSET, committed_leader_epoch=NO_EPOCH
            )
            answers.append(answer)
            if group is None:
                continue
            if self._require_stable and machine.is_offset_pending(group, name, index):
                answer.error_code = ErrorCode.UNSTABLE_OFFSET_COMMIT
                continue
            committed = group.offset(name, index)
            if committed is not None and (committed.topic_id in (topic_id, ZERO_TOPIC_ID) or topic is None):
                answer.committed_offset = committed.offset
                answer.committed_leader_epoch = committed.leader_epoch
                answer.metadata = committed.metadata
        return FetchedTopic(name=name, topic_id=topic_id, partitions=answers)


def _unknown_id(asked: api.OffsetFetchRequest.OffsetFetchRequestTopics) -> FetchedTopic:
    return FetchedTopic(
        topic_id=asked.topic_id,
        partitions=[
            FetchedPartition(partition_index=index, committed_offset=NO_OFFSET, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
            for index in asked.partition_indexes
        ],
    )


def _unbatched(group: FetchedGroup) -> api.OffsetFetchResponse:
    """The one group of versions before 8."""
    topics = [
        api.OffsetFetchResponse.OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                api.OffsetFetchResponse.OffsetFetchResponsePartition(
                    partition_index=one.partition_index,
                    committed_offset=one.committed_offset,
                    committed_leader_epoch=one.committed_leader_epoch,
                    metadata=one.metadata,
                    error_code=one.error_code,
                )
                for one in topic.partitions
            ],
        )
        for topic in group.topics
    ]
    return api.OffsetFetchResponse(topics=topics, error_code=group.error_code)


# -- delete --------------------------------------------------------------------------------------------------------


async def offset_delete(
    node: Node, context: RequestContext, request: api.OffsetDeleteRequest
) -> api.OffsetDeleteResponse:
    known = [
        (topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
        if (found := node.image.topics.get(topic.name)) is not None and partition.partition_index in found.partitions
    ]
    try:
        codes = await node.coordinators.groups.submit(
            await member_partition(node, request.group_id),
            lambda machine: machine.decide_delete_offsets(request.group_id, known),
        )
    except ApiError as error:
        return api.OffsetDeleteResponse(error_code=error.code)
    outcomes = dict(zip(known, codes, strict=True))
    return api.OffsetDeleteResponse(
        topics=[
            api.OffsetDeleteResponse.OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    api.OffsetDeleteResponse.OffsetDeleteResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=outcomes.get(
                            (topic.name, partition.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                        ),
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


APIS: Final[dict[int, Api]] = {
    ApiKey.OFFSET_COMMIT: Api(
        versions=(2, 10), handle=offset_commit, at_once=_commit_at_once, decode=decode_commit, refuse=_refuse
    ),
    ApiKey.OFFSET_FETCH: Api(versions=(1, 10), handle=offset_fetch),
    ApiKey.OFFSET_DELETE: Api(versions=(0, 0), handle=offset_delete),
}
