"""Keys and values of a batch, as fast as Python walks bytes: for whoever reads a log of state back.

Like `records_of` without times and headers, and five times as fast; a million records lie between a coordinator and its
first request. Lengths are checked all the same.
"""

from typing import TypeAlias

from ottla.base.errors import ProtocolError
from ottla.base.types import Offset
from ottla.wire.batch import CODEC_MASK, HEADER_BYTES, Batch
from ottla.wire.compression import decompress
from ottla.wire.record_reader import DECOMPRESSED_BYTES_MAX

KeyValue: TypeAlias = tuple[Offset, bytes | None, bytes | None]


def keys_and_values(batch: Batch) -> list[KeyValue]:
    """Offset, key and value of each record."""
    header = batch.header
    data = bytes(batch.view[HEADER_BYTES:])
    if header.attributes & CODEC_MASK:
        data = decompress(header.codec, memoryview(data), max_bytes=DECOMPRESSED_BYTES_MAX)
    found: list[KeyValue] = []
    position, size = 0, len(data)
    try:
        for _ in range(header.record_count):
            length, position = _length(data, position)
            end = position + length
            position += 1  # Attributes.
            while data[position] >= 0x80:  # The time.
                position += 1
            offset_delta, position = _length(data, position + 1)
            key_length, position = _length(data, position)
            key_end = position + key_length
            key = None if key_length < 0 else data[position:key_end]
            value_length, position = _length(data, position if key is None else key_end)
            value_end = position + value_length
            if length < 0 or value_end >= end or end > size:
                raise ProtocolError(f"a record of the batch at {header.base_offset} runs past its end")
            found.append(
                (
                    header.base_offset + offset_delta,
                    key,
                    None if value_length < 0 else data[position:value_end],
                )
            )
            position = end
    except IndexError:
        raise ProtocolError(f"a record of the batch at {header.base_offset} runs past its end") from None
    return found


def _length(data: bytes, position: int) -> tuple[int, int]:
    """The zigzag varint at `position`, and the position behind it."""
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value = shift = 0
    while True:
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
        byte = data[position]
