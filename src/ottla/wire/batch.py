"""The 61-byte header of a record batch (format 2), read and changed in place.

This is all that the produce and fetch paths see of a batch: the records behind the header stay opaque. Offset and
leader epoch lie before the checksummed part, so the broker sets them without a new CRC; attributes and timestamps lie
inside it. The caller holds a `memoryview`; nothing here copies the records.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from fastcrc.crc32 import iscsi as crc32c

from ottla.base.disk import Buffer
from ottla.base.errors import ProtocolError
from ottla.base.types import NO_PRODUCER_ID, NO_SEQUENCE, LeaderEpoch, Offset, ProducerId, TimestampMs
from ottla.wire.compression import Codec

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = 61
LENGTH_OVERHEAD_BYTES: Final = 12  # `batch_length` counts from after itself: base offset and length are not in it.
BATCH_LENGTH_MIN: Final = HEADER_BYTES - LENGTH_OVERHEAD_BYTES
MAGIC: Final = 2
SEQUENCE_MAX: Final = 2**31 - 1

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

_BASE_OFFSET: Final = struct.Struct(">q")
_BASE_OFFSET_AND_LENGTH: Final = struct.Struct(">qi")
_START: Final = struct.Struct(">qii")  # base offset, length, leader epoch
_MAGIC_AT: Final = 16
_CRC: Final = struct.Struct(">I")
CRC_AT: Final = 17
_ATTRIBUTES: Final = struct.Struct(">h")
ATTRIBUTES_AT: Final = 21  # Where the checksummed part begins.
_TIMESTAMP: Final = struct.Struct(">q")
_MAX_TIMESTAMP_AT: Final = 35
_PRODUCER: Final = struct.Struct(">qhi")
_PRODUCER_AT: Final = 43


class TimestampType(IntEnum):
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    base_offset: Offset
    batch_length: int
    partition_leader_epoch: LeaderEpoch
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: TimestampMs
    max_timestamp: TimestampMs
    producer_id: ProducerId
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        return self.batch_length + LENGTH_OVERHEAD_BYTES

    @property
    def last_offset(self) -> Offset:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> Offset:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        return NO_SEQUENCE if self.base_sequence < 0 else sequence_after(self.base_sequence, self.last_offset_delta)

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID

    @property
    def codec(self) -> Codec:
        return codec_of(self.attributes)

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME_BIT else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Compaction then keeps the delete horizon in `base_timestamp` (KIP-534)."""
        return self.attributes & DELETE_HORIZON_BIT != 0


class Batch(NamedTuple):
    """One batch inside a larger buffer: where it lies, its header, and its own bytes (a view, not a copy)."""

    position: int
    header: BatchHeader
    view: memoryview


def codec_of(attributes: int) -> Codec:
    number = attributes & CODEC_MASK
    if number > Codec.ZSTD:
        raise ProtocolError(f"unknown compression codec {number}")
    return Codec(number)


def sequence_after(sequence: int, count: int) -> int:
    """Sequence numbers wrap to 0 after the largest int32."""
    return (sequence + count) & SEQUENCE_MAX


def parse_header(view: Buffer, position: int = 0) -> BatchHeader:
    """The header as it stands: nothing but its presence is checked."""
    try:
        return BatchHeader._make(HEADER.unpack_from(view, position))
    except struct.error:
        raise ProtocolError(f"{len(view) - position} bytes are too few for a batch header") from None


def first_offset(view: Buffer) -> Offset:
    """The base offset of the batch that a buffer begins with."""
    offset: Offset = _BASE_OFFSET.unpack_from(view, 0)[0]
    return offset


def batches(view: memoryview, position: int = 0, *, stop_at_partial: bool = False) -> Iterator[Batch]:
    """The batches from `position` on, each whole and of format 2; the CRC is not checked.

    A batch that is cut by the end of the buffer is an error, or the end of the walk with `stop_at_partial` (a fetch
    and a torn file both end like that). A length too small for a header is always an error.
    """
    end = len(view)
    while position < end:
        left = end - position
        if left >= LENGTH_OVERHEAD_BYTES:
            batch_length = _BASE_OFFSET_AND_LENGTH.unpack_from(view, position)[1]
            if batch_length < BATCH_LENGTH_MIN:
                raise ProtocolError(f"batch length {batch_length} at {position} is smaller than a batch header")
            if left > _MAGIC_AT and view[position + _MAGIC_AT] != MAGIC:
                raise ProtocolError(f"batch at {position} has format {view[position + _MAGIC_AT]}, not {MAGIC}")
            size_bytes = batch_length + LENGTH_OVERHEAD_BYTES
            if size_bytes <= left:
                yield Batch(position, parse_header(view, position), view[position : position + size_bytes])
                position += size_bytes
                continue
        if stop_at_partial:
            return
        raise ProtocolError(f"batch at {position} does not end within the {left} bytes left")


def compute_crc(view: Buffer, start: int, end: int) -> int:
    """CRC-32C of the batch that occupies `view[start:end]`: from its attributes to its end."""
    return crc32c(memoryview(view)[start + ATTRIBUTES_AT : end])


def is_crc_valid(batch: Buffer) -> bool:
    """Whether `batch`, exactly one batch, carries the checksum of its bytes."""
    if len(batch) < HEADER_BYTES:
        return False
    return bool(compute_crc(batch, 0, len(batch)) == _CRC.unpack_from(batch, CRC_AT)[0])


def check_crc(batch: Buffer) -> None:
    if not is_crc_valid(batch):
        raise ProtocolError("the batch's checksum does not match its bytes")


def set_offset_and_epoch(batch: memoryview | bytearray, base_offset: Offset, leader_epoch: LeaderEpoch) -> None:
    """What a leader stamps on every batch, exactly one: the CRC stays valid, as neither field is part of it."""
    _START.pack_into(batch, 0, base_offset, len(batch) - LENGTH_OVERHEAD_BYTES, leader_epoch)


def set_log_append_time(batch: memoryview | bytearray, timestamp: TimestampMs) -> None:
    """All records of the batch then read `timestamp`; their own stay in the bytes, unseen."""
    attributes = _ATTRIBUTES.unpack_from(batch, ATTRIBUTES_AT)[0]
    _ATTRIBUTES.pack_into(batch, ATTRIBUTES_AT, attributes | LOG_APPEND_TIME_BIT)
    _TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_AT, timestamp)
    set_crc(batch)


def producer_of(batch: Buffer) -> tuple[int, int, int]:
    """Id, epoch and first sequence, of a batch whose header is there whole; without reading the rest of it."""
    producer_id, epoch, sequence = _PRODUCER.unpack_from(batch, _PRODUCER_AT)
    return producer_id, epoch, sequence


def set_producer(
    batch: memoryview | bytearray,
    *,
    producer_id: ProducerId,
    producer_epoch: int,
    base_sequence: int,
    is_transactional: bool,
) -> None:
    """What a producer stamps on a batch when its turn comes: who it is from, and its place in the order."""
    if is_transactional:
        attributes = _ATTRIBUTES.unpack_from(batch, ATTRIBUTES_AT)[0]
        _ATTRIBUTES.pack_into(batch, ATTRIBUTES_AT, attributes | TRANSACTIONAL_BIT)
    _PRODUCER.pack_into(batch, _PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    set_crc(batch)


def set_crc(batch: memoryview | bytearray) -> None:
    _CRC.pack_into(batch, CRC_AT, compute_crc(batch, 0, len(batch)))
