"""The hand-tuned decoder of Produce requests, proved equal to the general one by tests. Records stay where they were
received: what it returns are views of the frame."""

from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from ottla.base.errors import ProtocolError
from ottla.wire.hot import PRODUCE_FLEXIBLE_FROM, PRODUCE_TOPIC_IDS_FROM, TopicKey

_I32: Final = Struct(">i")
_I16: Final = Struct(">h")
_ACKS_TIMEOUT: Final = Struct(">hi")


class ProduceCall(NamedTuple):
    """A Produce request as its handler wants it."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[tuple[TopicKey, list[tuple[int, memoryview | None]]]]


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
