"""OffsetCommit as its handler wants it: what consumers send most, proved equal to the general codec by tests.

Nearly every commit is for one partition, without a text of its own. Such a request is read, and such an answer written, by
hand; any other goes through the general codec.
"""

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple, TypeAlias

from ottla.base.types import LeaderEpoch, Offset, TopicId
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.codec import codec_for
from ottla.wire.frame import SIZE_BYTES, decode_response, encode_response
from ottla.wire.primitives import UUID_BYTES, uuid_of

FLEXIBLE_FROM: Final = 8
TOPIC_IDS_FROM: Final = 10

TopicKey: TypeAlias = str | TopicId
PartitionCommit: TypeAlias = tuple[int, Offset, LeaderEpoch, str | None]
"""Partition, offset, leader epoch, and a text of the client's own."""
TopicCommit: TypeAlias = tuple[TopicKey, Sequence[PartitionCommit]]
TopicCommitted: TypeAlias = tuple[TopicKey, Sequence[tuple[int, int]]]
"""The outcome for a topic: partitions with their error codes."""


class Committer(NamedTuple):
    """Who commits."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    retention_ms: int


CommitCall: TypeAlias = tuple[Committer, Sequence[TopicCommit]]
"""An OffsetCommit request."""


# -- reading -----------------------------------------------------------------------------------------------------------

_I32: Final = Struct(">i")
_NO_RETENTION: Final = -1
HEADS_REMEMBERED_MAX: Final = 10_000
HEAD_BYTES_MAX: Final = 640  # More than four short texts take.
_ONE: Final = 2  # An array's length is one more than what it holds.
_LONG: Final = 0x80  # From here on a length takes more than a byte.
_TAIL: Final = Struct(">BiqiI")  # one partition: index, offset, leader epoch; an empty text, and no tags three times
_TAIL_END: Final = 0x01_00_00_00


def decode_commit(view: memoryview, position: int, version: int) -> CommitCall:
    if version >= FLEXIBLE_FROM:
        try:
            call = _decode_single(view, position, version)
        except (IndexError, struct_error, ValueError):
            call = None  # The general codec says what is wrong.
        if call is not None:
            return call
    request, _ = codec_for(api.OffsetCommitRequest, version).decode(view, position)
    return commit_call(request, version)


def _decode_single(view: memoryview, position: int, version: int) -> CommitCall | None:
    """One partition without a text, every length in a byte; None for anything else."""
    tail_position = len(view) - _TAIL.size
    count, partition, offset, leader_epoch, end = _TAIL.unpack_from(view, tail_position)
    if count != _ONE or end != _TAIL_END or tail_position - position > HEAD_BYTES_MAX:
        return None
    head = _decode_head(bytes(view[position:tail_position]), version >= TOPIC_IDS_FROM)
    if head is None:
        return None
    committer, topic = head
    return committer, [(topic, [(partition, offset, leader_epoch, "")])]


@lru_cache(HEADS_REMEMBERED_MAX)
def _decode_head(head: bytes, by_id: bool) -> tuple[Committer, TopicKey] | None:
    """What stands before the only partition: the same in all commits of a member, until the next rebalance."""
    group_id, position = _text(head, 0)
    (generation,) = _I32.unpack_from(head, position)
    member_id, position = _text(head, position + 4)
    instance_id, position = _text(head, position)
    if group_id is None or member_id is None or head[position] != _ONE:
        return None
    topic: TopicKey | None
    if by_id:
        topic = uuid_of(head[position + 1 : position + 1 + UUID_BYTES])
        position += 1 + UUID_BYTES
    else:
        topic, position = _text(head, position + 1)
    if topic is None or position != len(head):
        return None
    return Committer(group_id, generation, member_id, instance_id, _NO_RETENTION), topic


def _text(head: bytes, position: int) -> tuple[str | None, int]:
    """A short text and what follows it. One that reaches past the end is noticed by where that is."""
    size = head[position]
    if size == 0:
        return None, position + 1
    if size >= _LONG:
        raise IndexError("a long text")
    stop = position + size  # The size is one more than the text's, and so is where it ends.
    return head[position + 1 : stop].decode(), stop


def commit_call(request: api.OffsetCommitRequest, version: int) -> CommitCall:
    by_id = version >= TOPIC_IDS_FROM
    committer = Committer(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        request.retention_time_ms,
    )
    return (
        committer,
        [
            (
                topic.topic_id if by_id else topic.name,
                [
                    (one.partition_index, one.committed_offset, one.committed_leader_epoch, one.committed_metadata)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


# -- writing -----------------------------------------------------------------------------------------------------------

_ANSWER_START: Final = Struct(">iiBi")  # size, correlation id, no tags, throttle time
_ANSWER_BYTES: Final = _ANSWER_START.size - 4
_ANSWER_TAIL: Final = Struct(">BihBBB")  # one partition: index, code; no tags three times


def encode_committed(correlation_id: int, version: int, topics: Sequence[TopicCommitted]) -> bytes:
    """The whole response frame."""
    if version >= FLEXIBLE_FROM and len(topics) == 1 and len(topics[0][1]) == 1:
        topic, ((partition, code),) = topics[0]
        if not isinstance(topic, str) or len(topic) < _LONG:  # A name of any length may be asked for.
            rest = _answer_rest(topic, partition, code)
            if rest is not None:
                return _ANSWER_START.pack(_ANSWER_BYTES + len(rest), correlation_id, 0, 0) + rest
    return encode_response(ApiKey.OFFSET_COMMIT, version, correlation_id, _response(topics))


@lru_cache(HEADS_REMEMBERED_MAX)
def _answer_rest(topic: TopicKey, partition: int, code: int) -> bytes | None:
    """One topic with one partition; None if the name is a long one."""
    if isinstance(topic, str):
        encoded = topic.encode()
        if len(encoded) + 1 >= _LONG:
            return None
        name = bytes((len(encoded) + 1,)) + encoded
    else:
        name = topic.bytes
    return bytes((_ONE,)) + name + _ANSWER_TAIL.pack(_ONE, partition, code, 0, 0, 0)


def refused_commit(frame: bytes, version: int, code: int) -> bytes:
    """The same response with that code for everything in it."""
    correlation_id, response = decode_response(ApiKey.OFFSET_COMMIT, version, memoryview(frame)[SIZE_BYTES:])
    assert isinstance(response, api.OffsetCommitResponse)
    for topic in response.topics:
        for partition in topic.partitions:
            partition.error_code = code
    return encode_response(ApiKey.OFFSET_COMMIT, version, correlation_id, response)


def _response(topics: Sequence[TopicCommitted]) -> api.OffsetCommitResponse:
    response = api.OffsetCommitResponse()
    for key, partitions in topics:
        topic = api.OffsetCommitResponse.OffsetCommitResponseTopic(
            partitions=[
                api.OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=partition, error_code=code)
                for partition, code in partitions
            ]
        )
        if isinstance(key, str):
            topic.name = key
        else:
            topic.topic_id = key
        response.topics.append(topic)
    return response
