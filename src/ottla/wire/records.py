"""Record batches: what the rest of Ottla imports. Building, re-compressing and control records are written out here.

The header, all that the hot paths need, is in `wire/batch.py`, reading in `wire/record_reader.py`; their names are
available from here too.
"""

import struct
from collections.abc import Iterable, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Final, TypeAlias

from ottla.base.disk import Buffer
from ottla.base.errors import ProtocolError, invariant
from ottla.base.types import NO_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, LeaderEpoch, Offset, ProducerId, TimestampMs
from ottla.wire.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    TRANSACTIONAL_BIT,
    Batch,
    BatchHeader,
    TimestampType,
    batches,
    check_crc,
    codec_of,
    compute_crc,
    is_crc_valid,
    parse_header,
    sequence_after,
    set_crc,
    set_log_append_time,
    set_offset_and_epoch,
)
from ottla.wire.compression import Codec, compress
from ottla.wire.record_reader import (
    DECOMPRESSED_BYTES_MAX,
    Record,
    RecordShape,
    first_at_or_after,
    keyless_records,
    latest_record,
    open_batch,
    records_of,
    shapes_of,
)
from ottla.wire.varint import zigzag_varint

__all__ = [
    "DECOMPRESSED_BYTES_MAX",
    "HEADER",
    "HEADER_BYTES",
    "Batch",
    "BatchBuilder",
    "BatchHeader",
    "Codec",
    "ControlType",
    "Record",
    "RecordShape",
    "TimestampType",
    "batches",
    "check_crc",
    "codec_of",
    "compute_crc",
    "control_batch",
    "control_type_of",
    "end_transaction_marker",
    "first_at_or_after",
    "keyless_records",
    "is_crc_valid",
    "latest_record",
    "parse_header",
    "plain_batch",
    "recompress",
    "records_of",
    "sequence_after",
    "set_crc",
    "set_log_append_time",
    "set_offset_and_epoch",
    "shapes_of",
]

Headers: TypeAlias = Iterable[tuple[str, bytes | None]]

_INT64_MIN: Final = -(2**63)
_NULL_LENGTH: Final = zigzag_varint(-1)
PLAIN_RECORDS_REMEMBERED_MAX: Final = 4096
_NO_HEADER: Final = bytes(HEADER_BYTES)  # To be filled in.
_NO_HEADERS: Final = zigzag_varint(0)
_CONTROL_KEY: Final = struct.Struct(">hh")
_END_TRANSACTION_VALUE: Final = struct.Struct(">hi")


class BatchBuilder:
    """Collects records, then `build()`s one batch. Offsets run on from `base_offset` unless given.

    With `log_append_time` every record reads that time; with `delete_horizon_ms` the base timestamp is the horizon.
    """

    def __init__(
        self,
        *,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        base_offset: Offset = 0,
        leader_epoch: LeaderEpoch = NO_EPOCH,
        producer_id: ProducerId = NO_PRODUCER_ID,
        producer_epoch: int = NO_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        transactional: bool = False,
        control: bool = False,
        log_append_time: TimestampMs | None = None,
        delete_horizon_ms: TimestampMs | None = None,
    ) -> None:
        self._codec = codec
        self._level = level
        self._base_offset = base_offset
        self._leader_epoch = leader_epoch
        self._producer = (producer_id, producer_epoch, base_sequence)
        self._attributes = (
            codec
            | (TRANSACTIONAL_BIT if transactional else 0)
            | (CONTROL_BIT if control else 0)
            | (LOG_APPEND_TIME_BIT if log_append_time is not None else 0)
            | (DELETE_HORIZON_BIT if delete_horizon_ms is not None else 0)
        )
        self._log_append_time = log_append_time
        self._base_timestamp = delete_horizon_ms
        self._max_timestamp = _INT64_MIN
        self._next_offset = base_offset
        self._records = bytearray()
        self.record_count = 0

    @property
    def size_bytes(self) -> int:
        """Of the batch if it were not compressed."""
        return HEADER_BYTES + len(self._records)

    def append(
        self,
        timestamp: TimestampMs,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
        *,
        offset: Offset | None = None,
    ) -> Offset:
        """Adds a record and returns its offset; a given `offset` may leave a gap (compaction does) but not go back."""
        if offset is None:
            offset = self._next_offset
        invariant(offset >= self._next_offset, "offsets in a batch grow", offset=offset, next_offset=self._next_offset)
        if self._base_timestamp is None:
            self._base_timestamp = timestamp
        self._max_timestamp = max(self._max_timestamp, timestamp)
        body = _encode_record(timestamp - self._base_timestamp, offset - self._base_offset, key, value, headers)
        self._records += zigzag_varint(len(body))
        self._records += body
        self._next_offset = offset + 1
        self.record_count += 1
        return offset

    def build(self) -> bytearray:
        """The batch: a bytearray, because a leader's append stamps offsets into it."""
        invariant(self.record_count > 0, "a batch holds at least one record")
        payload = self._records if self._codec is Codec.NONE else compress(self._codec, self._records, self._level)
        batch = bytearray(HEADER_BYTES)
        batch += payload
        HEADER.pack_into(
            batch,
            0,
            self._base_offset,
            len(batch) - LENGTH_OVERHEAD_BYTES,
            self._leader_epoch,
            MAGIC,
            0,
            self._attributes,
            self._next_offset - self._base_offset - 1,
            self._base_timestamp,
            self._max_timestamp if self._log_append_time is None else self._log_append_time,
            *self._producer,
            self.record_count,
        )
        set_crc(batch)
        return batch


def plain_batch(records: Sequence[tuple[bytes, bytes | None]], timestamp: TimestampMs) -> bytearray:
    """What `BatchBuilder` makes of keys and values, at a third of the cost: every commit of every group is one."""
    parts: list[bytes] = [_NO_HEADER]
    for offset_delta, (key, value) in enumerate(records):
        before_key, before_value = _plain_record(offset_delta, len(key), -1 if value is None else len(value))
        parts += before_key, key, before_value, value or b"", _NO_HEADERS
    batch = bytearray().join(parts)
    HEADER.pack_into(
        batch,
        0,
        0,
        len(batch) - LENGTH_OVERHEAD_BYTES,
        NO_EPOCH,
        MAGIC,
        0,
        0,
        len(records) - 1,
        timestamp,
        timestamp,
        NO_PRODUCER_ID,
        NO_EPOCH,
        NO_SEQUENCE,
        len(records),
    )
    set_crc(batch)
    return batch


@lru_cache(PLAIN_RECORDS_REMEMBERED_MAX)
def _plain_record(offset_delta: int, key_bytes: int, value_bytes: int) -> tuple[bytes, bytes]:
    """What stands before the key and before the value: the same for all of these sizes. -1: no value."""
    before_key = b"\0\0" + zigzag_varint(offset_delta) + zigzag_varint(key_bytes)  # attributes, no time since the first
    before_value = zigzag_varint(value_bytes)
    size = len(before_key) + key_bytes + len(before_value) + max(value_bytes, 0) + len(_NO_HEADERS)
    return zigzag_varint(size) + before_key, before_value


def _encode_record(
    timestamp_delta: int, offset_delta: int, key: bytes | None, value: bytes | None, headers: Headers
) -> bytes:
    parts = [b"\0", zigzag_varint(timestamp_delta), zigzag_varint(offset_delta)]
    parts += (_NULL_LENGTH,) if key is None else (zigzag_varint(len(key)), key)
    parts += (_NULL_LENGTH,) if value is None else (zigzag_varint(len(value)), value)
    pairs = list(headers)
    parts.append(zigzag_varint(len(pairs)) if pairs else _NO_HEADERS)
    for name, content in pairs:
        encoded = name.encode()
        parts += (zigzag_varint(len(encoded)), encoded)
        parts += (_NULL_LENGTH,) if content is None else (zigzag_varint(len(content)), content)
    return b"".join(parts)


def recompress(
    batch: Buffer, codec: Codec, level: int | None = None, *, max_bytes: int = DECOMPRESSED_BYTES_MAX
) -> bytearray:
    """The same batch with its records in another codec. They stay opaque; length, codec bits and CRC are new."""
    header, data = open_batch(batch, max_bytes)
    out = bytearray(HEADER_BYTES)
    out += compress(codec, data, level)
    attributes = header.attributes & ~CODEC_MASK | codec
    HEADER.pack_into(out, 0, *header._replace(batch_length=len(out) - LENGTH_OVERHEAD_BYTES, attributes=attributes))
    set_crc(out)
    return out


# Control records


class ControlType(IntEnum):
    """The kind of a control record, the second half of its key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


def control_batch(
    control_type: ControlType,
    value: bytes,
    *,
    timestamp: TimestampMs,
    base_offset: Offset = 0,
    leader_epoch: LeaderEpoch = NO_EPOCH,
    producer_id: ProducerId = NO_PRODUCER_ID,
    producer_epoch: int = NO_EPOCH,
    transactional: bool = False,
) -> bytearray:
    """One control record in a batch of its own; `value` is the encoded message of that type."""
    builder = BatchBuilder(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=transactional,
        control=True,
    )
    builder.append(timestamp, _CONTROL_KEY.pack(0, control_type), value)
    return builder.build()


def end_transaction_marker(
    control_type: ControlType,
    *,
    coordinator_epoch: int,
    producer_id: ProducerId,
    producer_epoch: int,
    timestamp: TimestampMs,
) -> bytearray:
    """The marker that decides a transaction in this partition: `COMMIT` or `ABORT` (KIP-98)."""
    invariant(control_type <= ControlType.COMMIT, "a marker commits or aborts", control_type=control_type)
    return control_batch(
        control_type,
        _END_TRANSACTION_VALUE.pack(0, coordinator_epoch),
        timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
    )


def control_type_of(key: bytes | None) -> ControlType | None:
    """The type in a control record's key; `None` for one of a newer broker, which readers pass over."""
    if key is None or len(key) < _CONTROL_KEY.size:
        raise ProtocolError("a control record's key is a version and a type")
    version, number = _CONTROL_KEY.unpack_from(key)
    if version < 0:
        raise ProtocolError(f"control record version {version}")
    return ControlType(number) if number in ControlType._value2member_map_ else None
