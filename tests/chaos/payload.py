"""Records that know what they are: who wrote them, where, as the how manyth, with a checksum over all of it.

A reader can therefore tell a lost, repeated, moved, changed or invented record from the log alone.
"""

import random
import struct
import zlib
from typing import Final, NamedTuple

_IDENTITY: Final = struct.Struct(">IIQ")
_CHECKSUM: Final = struct.Struct(">I")
_NOISE: Final = random.Random(0).randbytes(1 << 17)
VALUE_BYTES_MIN: Final = _IDENTITY.size + _CHECKSUM.size


class Numbered(NamedTuple):
    """What a record says of itself: the `number`th that `writer` sent to `partition`, counted from 0."""

    writer: int
    partition: int
    number: int


def encode(record: Numbered, size_bytes: int) -> bytes:
    """The record's value. Its filling differs from record to record, so that bytes of another one are noticed."""
    filling = max(size_bytes - VALUE_BYTES_MIN, 0)
    start = record.number * 7 % (len(_NOISE) // 2)
    body = _IDENTITY.pack(*record) + _NOISE[start : start + filling]
    return body + _CHECKSUM.pack(zlib.crc32(body))


def decode(value: bytes | None) -> Numbered | None:
    """None where the value is not what a writer wrote."""
    if value is None or len(value) < VALUE_BYTES_MIN:
        return None
    body, (checksum,) = value[: -_CHECKSUM.size], _CHECKSUM.unpack(value[-_CHECKSUM.size :])
    return Numbered(*_IDENTITY.unpack_from(body)) if zlib.crc32(body) == checksum else None
