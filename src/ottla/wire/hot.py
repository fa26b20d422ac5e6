"""Hand-tuned codecs of the two hot messages, Produce and Fetch, proved equal to the general ones by tests.

`decode_produce` leaves records where they were received. `encode_produce` and `FetchEncoder` write only what a successful
answer needs; an answer with tagged fields (new leaders, diverging epochs) goes through the general codec. `FetchEncoder`
leaves gaps where the records go, so that they can be sent from the file.
"""

from collections.abc import Sequence
from struct import Struct
from struct import error as struct_error
from typing import Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from ottla.base.errors import ProtocolError
from ottla.base.types import Offset, ProducerId, TimestampMs

PRODUCE_FLEXIBLE_FROM: Final = 9
PRODUCE_TOPIC_IDS_FROM: Final = 13
FETCH_FLEXIBLE_FROM: Final = 12
FETCH_TOPIC_IDS_FROM: Final = 13
NULL_RECORDS: Final = -1

_I32: Final = Struct(">i")
_I16: Final = Struct(">h")
_ACKS_TIMEOUT: Final = Struct(">hi")

Region = TypeVar("Region")  # What the transport sends for a partition's records.
TopicKey: TypeAlias = str | bytes  # A name, or the 16 bytes of a topic id.


class ProduceCall(NamedTuple):
    """A Produce request as its handler wants it."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[tuple[TopicKey, list[tuple[int, memoryview | None]]]]


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


# -- reading ----------------------------------------------------------------------------------------------------------


def _uvarint(view: memoryview, position: int) -> tuple[int, int]:
    byte = view[position]
    if byte < 0x80:
        return byte, position + 1
    value, shift = byte & 0x7F, 7
    while True:
        position += 1
        byte = view[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
        shift += 7
        if shift > 28:
            raise ProtocolError("varint longer than five bytes")


def _skip_tags(view: memoryview, position: int) -> int:
    count, position = _uvarint(view, position)
    for _ in range(count):
        _, position = _uvarint(view, position)
        size, position = _uvarint(view, position)
        position += size
        if position > len(view):
            raise ProtocolError("tagged field longer than the request")
    return position


def _slice(view: memoryview, position: int, size: int) -> memoryview:
    end = position + size
    if size < 0 or end > len(view):
        raise ProtocolError(f"field of {size} bytes, {len(view) - position} left")
    return view[position:end]


def _text(view: memoryview, position: int, size: int) -> str:
    return str(_slice(view, position, size), "utf-8")


# What most requests begin with: no transactional id, acks, timeout, one topic.
_ONE_TOPIC: Final = Struct(">BhiB")


def decode_produce(view: memoryview, position: int, version: int) -> ProduceCall:
    try:
        if version >= PRODUCE_FLEXIBLE_FROM:
            null_id, acks, timeout_ms, topic_count = _ONE_TOPIC.unpack_from(view, position)
            if null_id == 0 and topic_count == 2:
                call = _decode_single(view, position + 8, version, acks, timeout_ms)
                if call is not None:
                    return call
            return _decode_flexible(view, position, version)
        return _decode_plain(view, position)
    except (IndexError, struct_error, UnicodeDecodeError) as error:
        raise ProtocolError(f"malformed Produce request: {error}") from error


def _decode_single(view: memoryview, position: int, version: int, acks: int, timeout_ms: int) -> ProduceCall | None:
    """One topic with one partition, every length in its usual form; None for anything else."""
    topic: TopicKey
    if version >= PRODUCE_TOPIC_IDS_FROM:
        stop = position + 16
        topic = bytes(view[position:stop])
    else:
        stop = position + view[position]  # The length is one more than the name's, and so is where it ends.
        if view[position] >= 0x80 or stop >= len(view):
            return None
        topic = str(view[position + 1 : stop], "utf-8")
    if view[stop] != 2:
        return None
    (index,) = _I32.unpack_from(view, stop + 1)
    size, position = _uvarint(view, stop + 5)
    stop = position + size - 1
    if size == 0 or stop + 3 != len(view) or view[stop] or view[stop + 1] or view[stop + 2]:
        return None
    return ProduceCall(None, acks, timeout_ms, [(topic, [(index, view[position:stop])])])


def _decode_flexible(view: memoryview, position: int, version: int) -> ProduceCall:
    size, position = _uvarint(view, position)
    transactional_id = None
    if size:
        transactional_id = _text(view, position, size - 1)
        position += size - 1
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(view, position)
    topic_count, position = _uvarint(view, position + 6)
    if topic_count == 0:
        raise ProtocolError("null topics in a Produce request")
    topics: list[tuple[TopicKey, list[tuple[int, memoryview | None]]]] = []
    for _ in range(topic_count - 1):
        topic: TopicKey
        if version >= PRODUCE_TOPIC_IDS_FROM:
            topic = bytes(_slice(view, position, 16))
            position += 16
        else:
            size, position = _uvarint(view, position)
            topic = _text(view, position, size - 1)
            position += size - 1
        partition_count, position = _uvarint(view, position)
        if partition_count == 0:
            raise ProtocolError("null partitions in a Produce request")
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(partition_count - 1):
            (index,) = _I32.unpack_from(view, position)
            size, position = _uvarint(view, position + 4)
            if size:
                partitions.append((index, _slice(view, position, size - 1)))
                position += size - 1
            else:
                partitions.append((index, None))
            position = position + 1 if view[position] == 0 else _skip_tags(view, position)
        topics.append((topic, partitions))
        position = position + 1 if view[position] == 0 else _skip_tags(view, position)
    _skip_tags(view, position)
    return ProduceCall(transactional_id, acks, timeout_ms, topics)


def _decode_plain(view: memoryview, position: int) -> ProduceCall:
    (size,) = _I16.unpack_from(view, position)
    position += 2
    transactional_id = None
    if size != -1:
        transactional_id = _text(view, position, size)
        position += size
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(view, position)
    (topic_count,) = _I32.unpack_from(view, position + 6)
    position += 10
    if topic_count < 0:
        raise ProtocolError("null topics in a Produce request")
    topics: list[tuple[TopicKey, list[tuple[int, memoryview | None]]]] = []
    for _ in range(topic_count):
        (size,) = _I16.unpack_from(view, position)
        topic = _text(view, position + 2, size)
        position += 2 + size
        (partition_count,) = _I32.unpack_from(view, position)
        position += 4
        if partition_count < 0:
            raise ProtocolError("null partitions in a Produce request")
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(partition_count):
            (index,) = _I32.unpack_from(view, position)
            (size,) = _I32.unpack_from(view, position + 4)
            position += 8
            if size == -1:
                partitions.append((index, None))
            else:
                partitions.append((index, _slice(view, position, size)))
                position += size
        topics.append((topic, partitions))
    return ProduceCall(transactional_id, acks, timeout_ms, topics)


# -- writing ----------------------------------------------------------------------------------------------------------


def put_uvarint(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


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
    if flexible:
        put_uvarint(out, count + 1)
    else:
        out += _I32.pack(count)


_PRODUCED: Final = Struct(">ihqqq")
_PRODUCED_V3: Final = Struct(">ihqq")


_SINGLE_HEAD: Final = Struct(">iiBB")  # size, correlation id, no tags, one topic
_SINGLE_BODY: Final = Struct(">BihqqqBBBBiB")  # one partition, its fields, no errors, no message, tags, throttle, tags
_SINGLE_BYTES: Final = _SINGLE_HEAD.size + _SINGLE_BODY.size - 4


def encode_produce(
    correlation_id: int, version: int, topics: list[tuple[TopicKey, list[Produced]]]
) -> bytes | bytearray:
    """The whole response frame, size prefix included."""
    if version >= PRODUCE_FLEXIBLE_FROM and len(topics) == 1:
        topic, outcomes = topics[0]
        if len(outcomes) == 1 and outcomes[0].error_message is None:
            index, error_code, base_offset, append_time_ms, start_offset, _, _ = outcomes[0]
            name = _encoded_topic(topic)
            return b"".join((
                _SINGLE_HEAD.pack(_SINGLE_BYTES + len(name), correlation_id, 0, 2),
                name,
                _SINGLE_BODY.pack(2, index, error_code, base_offset, append_time_ms, start_offset, 1, 0, 0, 0, 0, 0),
            ))  # fmt: skip
    return _encode_produce(correlation_id, version, topics)


def _encoded_topic(topic: TopicKey) -> bytes:
    if isinstance(topic, bytes):
        return topic
    out = bytearray()
    put_topic(out, topic, flexible=True)
    return bytes(out)


def _encode_produce(correlation_id: int, version: int, topics: list[tuple[TopicKey, list[Produced]]]) -> bytearray:
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
            if flexible:
                out.append(0)
        if flexible:
            out.append(0)
    out += _I32.pack(0)  # throttle_time_ms
    if flexible:
        out.append(0)
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
    ) -> None:
        """`records` is what the transport sends for `records_size` bytes; None with size 0 for no records.

        `aborted`: what a reader of committed data passes over; None for other readers.
        """
        out = self._out
        fields = _FETCHED.pack(index, error_code, high_watermark, last_stable_offset, log_start_offset)
        out += fields if self._version >= 5 else fields[:22]
        if aborted is not None:
            self._put_aborted(aborted)
        elif self._flexible:
            out.append(0)
        else:
            out += b"\xff\xff\xff\xff"
        if self._version >= 11:
            out += b"\xff\xff\xff\xff"  # preferred read replica: none
        put_count(out, records_size, flexible=self._flexible)
        if records is not None:
            self._size += len(out) + records_size
            self._parts.append(out)
            self._parts.append(records)
            out = self._out = bytearray()
        if self._flexible:
            out.append(0)

    def _put_aborted(self, aborted: Sequence[AbortedRange]) -> None:
        out = self._out
        put_count(out, len(aborted), flexible=self._flexible)
        for one in aborted:
            out += _ABORTED.pack(one.producer_id, one.first_offset)
            if self._flexible:
                out.append(0)

    def end_topic(self) -> None:
        if self._flexible:
            self._out.append(0)

    def finish(self) -> list[bytearray | Region]:
        out = self._out
        if self._flexible:
            out.append(0)
        self._parts.append(out)
        first = self._parts[0]
        assert isinstance(first, bytearray)
        _I32.pack_into(first, 0, self._size + len(out) - 4)
        return self._parts
