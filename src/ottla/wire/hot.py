"""Hand-tuned encoders of the answers to the two hot requests, Produce and Fetch, proved equal to the general ones by tests.

They write only what a successful answer needs, and the tagged fields of hot_leaders.py. `FetchEncoder` leaves gaps where
the records go, so that they can be sent from the file. Produce requests are read by hot_produce.py.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from ottla.base.types import NO_NODE, NodeId, Offset, ProducerId, TimestampMs
from ottla.wire.hot_leaders import (
    CurrentLeader,
    DivergingEpoch,
    NodeEndpoint,
    put_endpoint_tags,
    put_fetch_tags,
    put_produce_tags,
    put_uvarint,
)

PRODUCE_FLEXIBLE_FROM: Final = 9
PRODUCE_TOPIC_IDS_FROM: Final = 13
FETCH_FLEXIBLE_FROM: Final = 12
FETCH_TOPIC_IDS_FROM: Final = 13
PRODUCE_LEADERS_FROM: Final = 10
FETCH_LEADERS_FROM: Final = 16
NULL_RECORDS: Final = -1

_I32: Final = Struct(">i")
_I16: Final = Struct(">h")

Region = TypeVar("Region")  # What the transport sends for a partition's records.
TopicKey: TypeAlias = str | bytes  # A name, or the 16 bytes of a topic id.


class Produced(NamedTuple):
    """The outcome for one partition."""

    partition: int
    error_code: int
    base_offset: Offset
    log_append_time_ms: TimestampMs
    log_start_offset: Offset
    error_message: str | None = None
    refused_records: Sequence[int] = ()
    """Which records of the batch are the reason, counted from 0."""
    current_leader: CurrentLeader | None = None
    """Whom to ask instead (KIP-951)."""


def put_topic(out: bytearray, topic: TopicKey, *, flexible: bool) -> None:
    if isinstance(topic, bytes):
        out += topic
        return
    encoded = topic.encode()
    if flexible:
        put_uvarint(out, len(encoded) + 1)
    else:
        out += _I16.pack(len(encoded))
    out += encoded


def put_count(out: bytearray, count: int, *, flexible: bool) -> None:
    if not flexible:
        out += _I32.pack(count)
    elif count < 0x7F:  # As a rule.
        out.append(count + 1)
    else:
        put_uvarint(out, count + 1)


_PRODUCED: Final = Struct(">ihqqq")
_PRODUCED_V3: Final = Struct(">ihqq")


_SINGLE_HEAD: Final = Struct(">iiBB")  # size, correlation id, no tags, one topic
_SINGLE_BODY: Final = Struct(">BihqqqBBBBiB")  # one partition, its fields, no errors, no message, tags, throttle, tags
_SINGLE_BYTES: Final = _SINGLE_HEAD.size + _SINGLE_BODY.size - 4


def encode_produce(
    correlation_id: int,
    version: int,
    topics: list[tuple[TopicKey, list[Produced]]],
    endpoints: Sequence[NodeEndpoint] = (),
) -> bytes | bytearray:
    """The whole response frame, size prefix included. `endpoints`: of the current leaders that outcomes name."""
    if version >= PRODUCE_FLEXIBLE_FROM and len(topics) == 1:
        topic, outcomes = topics[0]
        if len(outcomes) == 1 and outcomes[0].error_message is None and not endpoints:
            index, error_code, base_offset, append_time_ms, start_offset = outcomes[0][:5]
            name = _encoded_topic(topic)
            return b"".join((
                _SINGLE_HEAD.pack(_SINGLE_BYTES + len(name), correlation_id, 0, 2),
                name,
                _SINGLE_BODY.pack(2, index, error_code, base_offset, append_time_ms, start_offset, 1, 0, 0, 0, 0, 0),
            ))  # fmt: skip
    return _encode_produce(correlation_id, version, topics, endpoints)


def _encoded_topic(topic: TopicKey) -> bytes:
    if isinstance(topic, bytes):
        return topic
    out = bytearray()
    put_topic(out, topic, flexible=True)
    return bytes(out)


def _encode_produce(
    correlation_id: int,
    version: int,
    topics: list[tuple[TopicKey, list[Produced]]],
    endpoints: Sequence[NodeEndpoint],
) -> bytearray:
    flexible = version >= PRODUCE_FLEXIBLE_FROM
    out = bytearray(4)
    out += _I32.pack(correlation_id)
    if flexible:
        out.append(0)
    put_count(out, len(topics), flexible=flexible)
    for topic, partitions in topics:
        put_topic(out, topic, flexible=flexible)
        put_count(out, len(partitions), flexible=flexible)
        for produced in partitions:
            if version >= 5:
                out += _PRODUCED.pack(*produced[:5])
            else:
                out += _PRODUCED_V3.pack(*produced[:4])
            if version >= 8:
                _put_refused_records(out, produced, flexible=flexible)
                _put_message(out, produced.error_message, flexible=flexible)
            if version >= PRODUCE_LEADERS_FROM and produced.current_leader is not None:
                put_produce_tags(out, produced.current_leader)
            elif flexible:
                out.append(0)
        if flexible:
            out.append(0)
    out += _I32.pack(0)  # throttle_time_ms
    if flexible:
        put_endpoint_tags(out, endpoints if version >= PRODUCE_LEADERS_FROM else ())
    _I32.pack_into(out, 0, len(out) - 4)
    return out


def _put_refused_records(out: bytearray, produced: Produced, *, flexible: bool) -> None:
    put_count(out, len(produced.refused_records), flexible=flexible)
    for number in produced.refused_records:
        out += _I32.pack(number)
        _put_message(out, produced.error_message, flexible=flexible)
        if flexible:
            out.append(0)


def _put_message(out: bytearray, message: str | None, *, flexible: bool) -> None:
    if message is None:
        out += b"\x00" if flexible else b"\xff\xff"
        return
    encoded = message.encode()[:32_000]
    if flexible:
        put_uvarint(out, len(encoded) + 1)
    else:
        out += _I16.pack(len(encoded))
    out += encoded


_FETCH_TOP: Final = Struct(">ihi")  # throttle, error, session
_FETCHED: Final = Struct(">ihqqq")  # index, error, high watermark, last stable offset, log start
_FETCHED_PLAIN: Final = Struct(">ihqqqBi")  # and: nothing about aborted ones, preferred replica


_ABORTED: Final = Struct(">qq")  # producer, first offset


class AbortedRange(Protocol):
    """A producer's records from `first_offset` on, up to its next marker, were never committed."""

    @property
    def producer_id(self) -> ProducerId: ...

    @property
    def first_offset(self) -> Offset: ...


class FetchEncoder(Generic[Region]):
    """Builds one Fetch response: bytes up to each region of records, which the caller sends from its file."""

    __slots__ = ("_flexible", "_out", "_parts", "_size", "_version")

    def __init__(self, correlation_id: int, version: int, error_code: int, session_id: int, topic_count: int) -> None:
        self._version = version
        self._flexible = version >= FETCH_FLEXIBLE_FROM
        self._parts: list[bytearray | Region] = []
        self._size = 0
        out = self._out = bytearray(4)
        out += _I32.pack(correlation_id)
        if self._flexible:
            out.append(0)
        if version >= 7:
            out += _FETCH_TOP.pack(0, error_code, session_id)
        else:
            out += _I32.pack(0)
        put_count(out, topic_count, flexible=self._flexible)

    def begin_topic(self, topic: TopicKey, partition_count: int) -> None:
        put_topic(self._out, topic, flexible=self._flexible)
        put_count(self._out, partition_count, flexible=self._flexible)

    def partition(
        self,
        index: int,
        error_code: int,
        high_watermark: Offset,
        last_stable_offset: Offset,
        log_start_offset: Offset,
        records_size: int,
        records: Region | None,
        aborted: Sequence[AbortedRange] | None = None,
        *,
        preferred_replica: NodeId = NO_NODE,
        diverging: DivergingEpoch | None = None,
        leader: CurrentLeader | None = None,
    ) -> None:
        """`records` is what the transport sends for `records_size` bytes; None with size 0 for no records.

        `aborted`: what a reader of committed data passes over; None for other readers. `preferred_replica`: one that is
        nearer to the client (KIP-392).
        """
        out = self._out
        if self._flexible and aborted is None:
            out += _FETCHED_PLAIN.pack(
                index, error_code, high_watermark, last_stable_offset, log_start_offset, 0, preferred_replica
            )
        else:
            fields = _FETCHED.pack(index, error_code, high_watermark, last_stable_offset, log_start_offset)
            out += fields if self._version >= 5 else fields[:22]
            self._put_aborted(aborted)
            if self._version >= 11:
                out += _I32.pack(preferred_replica)
        put_count(out, records_size, flexible=self._flexible)
        if records is not None:
            self._size += len(out) + records_size
            self._parts.append(out)
            self._parts.append(records)
            out = self._out = bytearray()
        if diverging is not None or leader is not None:
            self._put_tags(diverging, leader)
        elif self._flexible:
            out.append(0)

    def _put_tags(self, diverging: DivergingEpoch | None, leader: CurrentLeader | None) -> None:
        if self._flexible:
            put_fetch_tags(self._out, diverging, leader if self._version >= FETCH_LEADERS_FROM else None)

    def _put_aborted(self, aborted: Sequence[AbortedRange] | None) -> None:
        out = self._out
        if aborted is None:
            out += _I32.pack(-1)
            return
        put_count(out, len(aborted), flexible=self._flexible)
        for one in aborted:
            out += _ABORTED.pack(one.producer_id, one.first_offset)
            if self._flexible:
                out.append(0)

    def end_topic(self) -> None:
        if self._flexible:
            self._out.append(0)

    def finish(self, endpoints: Sequence[NodeEndpoint] = ()) -> list[bytearray | Region]:
        """`endpoints`: of the current leaders that partitions name."""
        out = self._out
        if self._flexible:
            put_endpoint_tags(out, endpoints if self._version >= FETCH_LEADERS_FROM else ())
        self._parts.append(out)
        first = self._parts[0]
        assert isinstance(first, bytearray)
        _I32.pack_into(first, 0, self._size + len(out) - 4)
        return self._parts
