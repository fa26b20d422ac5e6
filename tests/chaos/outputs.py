"""What a transforming worker writes: which input record it comes from, and in which transaction of whom.

Every input record gives one record in each of the output topics, so that a transaction always spans several partitions:
a reader can tell from the outputs alone whether it came to be whole, once, and in order.
"""

import struct
import zlib
from typing import Final, NamedTuple

_FIELDS: Final = struct.Struct(">IQIIQ?")
_CHECKSUM: Final = struct.Struct(">I")


class TransactionName(NamedTuple):
    """The `number`th transaction of a worker's `incarnation`th process."""

    worker: int
    incarnation: int
    number: int


class Output(NamedTuple):
    source_partition: int
    source_offset: int
    transaction: TransactionName
    is_doomed: bool
    """Its worker meant to abort from the start."""


def encode_output(output: Output) -> bytes:
    body = _FIELDS.pack(output.source_partition, output.source_offset, *output.transaction, output.is_doomed)
    return body + _CHECKSUM.pack(zlib.crc32(body))


def decode_output(value: bytes | None) -> Output | None:
    """None where the value is not what a worker wrote."""
    if value is None or len(value) != _FIELDS.size + _CHECKSUM.size:
        return None
    body, (checksum,) = value[: _FIELDS.size], _CHECKSUM.unpack(value[_FIELDS.size :])
    if zlib.crc32(body) != checksum:
        return None
    partition, offset, worker, incarnation, number, is_doomed = _FIELDS.unpack(body)
    return Output(partition, offset, TransactionName(worker, incarnation, number), is_doomed)
