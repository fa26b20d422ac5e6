"""What compiled codecs call for the cases that are too rare, or too long, to stand in line.

Reading functions take a view and a position and return the value and the next position. They check every length
against the bytes that are left; a byte that is not there is an `IndexError` or `struct.error`, which the compiled
decoder turns into a `ProtocolError`.
"""

import struct
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any, Final
from uuid import UUID

from ottla.base.errors import ProtocolError

VARINT_BYTES_MAX: Final = 5
UUID_BYTES: Final = 16

# Struct elements and strings in one message. Each takes at least a byte of the frame but about 200 bytes of memory:
# without this bound a frame of 100 MB could ask for 20 GB. A million is far above what any cluster sends.
ELEMENTS_MAX: Final = 1_000_000

# Formats of short integer arrays are kept, longer ones are made anew: an attacker chooses the lengths.
_KEPT_LENGTH_MAX: Final = 1024


def long_varint(view: memoryview, position: int, first: int) -> tuple[int, int]:
    """Continues an unsigned varint whose `first` byte had its high bit set."""
    value = first & 0x7F
    shift = 7
    for following in range(position, position + VARINT_BYTES_MAX - 1):
        byte = view[following]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, following + 1
        shift += 7
    raise ProtocolError("a varint of more than five bytes")


def read_varint(view: memoryview, position: int) -> tuple[int, int]:
    first = view[position]
    if first < 0x80:
        return first, position + 1
    return long_varint(view, position + 1, first)


def varint(value: int) -> bytes:
    """An unsigned varint."""
    if value < 0x80:
        return _SHORT_VARINTS[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SHORT_VARINTS: Final = tuple(bytes((value,)) for value in range(0x80))


def skip_tags(view: memoryview, position: int, count: int) -> int:
    """Passes over tagged fields that no version of ours knows. `count` is the first byte of their number."""
    if count > 0x7F:
        count, position = long_varint(view, position, count)
    end = len(view)
    for _ in range(count):
        _, position = read_varint(view, position)
        size, position = read_varint(view, position)
        position += size
        if position > end:
            raise ProtocolError("a tagged field is longer than the message")
    return position


@lru_cache(maxsize=4096)
def uuid_of(raw: bytes) -> UUID:
    """Making a UUID costs more than the rest of a small request, and the same topic ids come again and again."""
    return UUID(bytes=raw)


class _Unpackers(dict[int, Callable[[memoryview, int], tuple[Any, ...]]]):
    def __init__(self, element_format: str) -> None:
        super().__init__()
        self._element_format = element_format

    def __missing__(self, length: int) -> Callable[[memoryview, int], tuple[Any, ...]]:
        unpack = struct.Struct(f">{length}{self._element_format}").unpack_from
        if length <= _KEPT_LENGTH_MAX:
            self[length] = unpack
        return unpack


class _Packers(dict[int, Callable[..., bytes]]):
    def __init__(self, element_format: str) -> None:
        super().__init__()
        self._element_format = element_format

    def __missing__(self, length: int) -> Callable[..., bytes]:
        pack = struct.Struct(f">{length}{self._element_format}").pack
        if length <= _KEPT_LENGTH_MAX:
            self[length] = pack
        return pack


@cache
def unpackers(element_format: str) -> Mapping[int, Callable[[memoryview, int], tuple[Any, ...]]]:
    """For arrays of a fixed-width type: number of elements → function that reads them all at once."""
    return _Unpackers(element_format)


@cache
def packers(element_format: str) -> Mapping[int, Callable[..., bytes]]:
    """For arrays of a fixed-width type: number of elements → function that writes them all at once."""
    return _Packers(element_format)
