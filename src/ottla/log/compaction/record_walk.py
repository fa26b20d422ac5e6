"""The records of a batch as compaction sees them: where each begins and ends, its key, whether it is a tombstone.

This and the two loops over it are where a cleaner spends its time: varints are decoded in line, nothing but the key is
copied, and what a record's value and headers hold is never looked at.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

from ottla.base.errors import ProtocolError

_NULL_LENGTH: Final = 1  # The varint of -1.

# Start and end in the data, timestamp delta, offset delta, key, whether the value is null: a plain tuple, for speed.
WalkedRecord: TypeAlias = tuple[int, int, int, int, bytes | None, bool]


def walk_records(data: bytes, record_count: int) -> Iterator[WalkedRecord]:
    """`data` is decompressed. `ProtocolError` for bytes that are not so many records."""
    position = 0
    size = len(data)
    try:
        for _ in range(record_count):
            # Four varints of one or two bytes, as nearly all are; a longer one is left to `_long_varint`.
            start = position
            if (length := data[position]) < 0x80:
                position += 1
            elif (high := data[position + 1]) < 0x80:
                length = length & 0x7F | high << 7
                position += 2
            else:
                length, position = _long_varint(data, position)
            end = position + (length >> 1)

            position += 1  # The attributes have no meaning yet.
            if (timestamp_delta := data[position]) < 0x80:
                position += 1
            elif (high := data[position + 1]) < 0x80:
                timestamp_delta = timestamp_delta & 0x7F | high << 7
                position += 2
            else:
                timestamp_delta, position = _long_varint(data, position)

            if (offset_delta := data[position]) < 0x80:
                position += 1
            elif (high := data[position + 1]) < 0x80:
                offset_delta = offset_delta & 0x7F | high << 7
                position += 2
            else:
                offset_delta, position = _long_varint(data, position)

            if (key_length := data[position]) < 0x80:
                position += 1
            elif (high := data[position + 1]) < 0x80:
                key_length = key_length & 0x7F | high << 7
                position += 2
            else:
                key_length, position = _long_varint(data, position)
            if key_length & 1:
                key = None
            else:
                key_at = position
                position += key_length >> 1
                key = data[key_at:position]

            if position >= end or end > size:
                raise ProtocolError(f"the record at {start} does not hold its key")
            yield (
                start,
                end,
                (timestamp_delta >> 1) ^ -(timestamp_delta & 1),
                offset_delta >> 1,
                key,
                data[position] == _NULL_LENGTH,
            )
            position = end
    except IndexError:
        raise ProtocolError("a record runs past the end of its batch") from None
    if position != size:
        raise ProtocolError(f"{size - position} bytes are left after {record_count} records")


def _long_varint(data: bytes, position: int) -> tuple[int, int]:
    """The unsigned value of the varint at `position`, and the position behind it."""
    value = 0
    for shift in range(0, 64, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ProtocolError("a varint longer than ten bytes")
