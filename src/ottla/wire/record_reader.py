"""The records of a batch, one after another, from bytes that nobody vouches for.

A record is length, attributes, timestamp delta, offset delta, key, value, headers; everything but the attributes is a
zigzag varint or bytes behind one (-1 for null). Every length is checked against what is left and the count against the
header, so hostile bytes end in `ProtocolError`. The CRC is not checked here: whoever took the batch in has done it.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla.base.disk import Buffer
from ottla.base.errors import ProtocolError
from ottla.base.types import Offset, TimestampMs
from ottla.wire.batch import HEADER_BYTES, LOG_APPEND_TIME_BIT, MAGIC, BatchHeader, parse_header
from ottla.wire.compression import decompress

DECOMPRESSED_BYTES_MAX: Final = 64 * 1024 * 1024  # Of one batch, unless the caller knows better.

_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
_NULL: Final = -1


class Record(NamedTuple):
    offset: Offset
    timestamp: TimestampMs
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class RecordShape(NamedTuple):
    """A record without its bytes; a null key or value has the length -1."""

    offset: Offset
    timestamp: TimestampMs
    key_length: int
    value_length: int


class _Span(NamedTuple):
    """Where one record's parts lie in the decompressed bytes. The headers follow the value, up to `end`."""

    offset: Offset
    timestamp: TimestampMs
    key_position: int
    key_length: int
    value_position: int
    value_length: int
    end: int


def records_of(batch: Buffer, *, max_bytes: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
    """The records of exactly one batch."""
    header, data = open_batch(batch, max_bytes)
    for offset, timestamp, key_position, key_length, value_position, value_length, end in _spans(header, data):
        key = None if key_length < 0 else data[key_position : key_position + key_length]
        value_end = value_position + max(value_length, 0)
        value = None if value_length < 0 else data[value_position:value_end]
        headers = [] if end - value_end == 1 and data[value_end] == 0 else headers_at(data, value_end, end)
        yield Record(offset, timestamp, key, value, headers)


def shapes_of(batch: Buffer, *, max_bytes: int = DECOMPRESSED_BYTES_MAX) -> Iterator[RecordShape]:
    """Walks the records without copying them or looking at their headers."""
    header, data = open_batch(batch, max_bytes)
    for span in _spans(header, data):
        yield RecordShape(span.offset, span.timestamp, span.key_length, span.value_length)


def keyless_records(batch: Buffer, *, max_bytes: int = DECOMPRESSED_BYTES_MAX) -> list[int]:
    """Which records, counted from 0, have no key: a compacted topic cannot take them."""
    shapes = shapes_of(batch, max_bytes=max_bytes)
    return [number for number, shape in enumerate(shapes) if shape.key_length < 0]


def first_at_or_after(
    batch: Buffer, timestamp: TimestampMs, *, max_bytes: int = DECOMPRESSED_BYTES_MAX
) -> RecordShape | None:
    shapes = shapes_of(batch, max_bytes=max_bytes)
    return next((shape for shape in shapes if shape.timestamp >= timestamp), None)


def latest_record(batch: Buffer, *, max_bytes: int = DECOMPRESSED_BYTES_MAX) -> RecordShape | None:
    """The record with the largest timestamp, the first of several; `None` for an empty batch."""
    return max(shapes_of(batch, max_bytes=max_bytes), key=lambda shape: shape.timestamp, default=None)


def open_batch(batch: Buffer, max_bytes: int) -> tuple[BatchHeader, bytes]:
    """The header of exactly one batch and its records, decompressed."""
    header = parse_header(batch)
    if header.magic != MAGIC:
        raise ProtocolError(f"batch format {header.magic}, not {MAGIC}")
    if header.size_bytes != len(batch):
        raise ProtocolError(f"a batch of {header.size_bytes} bytes in {len(batch)}")
    return header, decompress(header.codec, memoryview(batch)[HEADER_BYTES:], max_bytes=max_bytes)


def _spans(header: BatchHeader, data: bytes) -> Iterator[_Span]:
    position = 0
    try:
        for _ in range(header.record_count):
            span = _span(header, data, position)
            position = span.end
            yield span
    except IndexError:
        raise ProtocolError(f"a record of the batch at {header.base_offset} runs past its end") from None
    if position != len(data) or header.record_count < 0:
        raise ProtocolError(f"{len(data) - position} bytes are left after {header.record_count} records")


def _span(header: BatchHeader, data: bytes, position: int) -> _Span:
    length, position = _varint(data, position)
    end = position + length
    if length < 0 or end > len(data):
        raise ProtocolError(f"record length {length} where {len(data) - position} bytes are left")
    timestamp_delta, position = _varint(data, position + 1)  # The attributes byte has no meaning yet.
    offset_delta, position = _varint(data, position)
    key_length, key_position = _varint(data, position)
    value_length, value_position = _varint(data, key_position + max(key_length, 0))
    timestamp = header.base_timestamp + timestamp_delta
    if header.attributes & LOG_APPEND_TIME_BIT:
        timestamp = header.max_timestamp
    if key_length < _NULL or value_length < _NULL or value_position + max(value_length, 0) > end:
        raise ProtocolError(f"key of {key_length} and value of {value_length} bytes in a record of {length}")
    if not 0 <= offset_delta <= header.last_offset_delta or not _INT64_MIN <= timestamp <= _INT64_MAX:
        raise ProtocolError(f"record delta {offset_delta} (offset), {timestamp_delta} (timestamp) outside its batch")
    return _Span(
        header.base_offset + offset_delta, timestamp, key_position, key_length, value_position, value_length, end
    )


def headers_at(data: bytes, position: int, end: int) -> list[tuple[str, bytes | None]]:
    """The headers that fill a record from `position` to its end."""
    headers: list[tuple[str, bytes | None]] = []
    try:
        count, position = _varint(data, position)
        if not 0 <= count <= end - position:  # A header takes at least two bytes.
            raise ProtocolError(f"{count} headers in {end - position} bytes")
        for _ in range(count):
            key, position = _bytes(data, position, end)
            value, position = _bytes(data, position, end)
            if key is None:
                raise ProtocolError("a header without a key")
            headers.append((key.decode(errors="replace"), value))  # As the Java client reads one that is not UTF-8.
    except IndexError:
        raise ProtocolError("the headers run past the end of the batch") from None
    if position != end:
        raise ProtocolError(f"record ends at {end}, its headers at {position}")
    return headers


def _bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = _varint(data, position)
    if length == _NULL:
        return None, position
    if length < 0 or position + length > end:
        raise ProtocolError(f"header part of {length} bytes where {end - position} are left")
    return data[position : position + length], position + length


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """The zigzag varint at `position` and the position after it; past the end it is an `IndexError`."""
    byte = data[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    value = byte & 0x7F
    for shift in range(7, 64, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
    raise ProtocolError("a varint longer than ten bytes")
