"""What a broker checks of a client's batch before it appends it: all of it from the header, in Kafka's order.

The order matters where a batch is wrong in two ways: clients retry some codes and give up on others. Records stay
opaque; `replica/` looks into them where a topic demands it (other codec, keys for compaction).
"""

from typing import Final

from fastcrc.crc32 import iscsi as crc32c

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NO_TIMESTAMP, TimestampMs
from ottla.log.config import LogConfig
from ottla.wire.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CONTROL_BIT,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    TimestampType,
)
from ottla.wire.compression import Codec

RECORDS_MAX: Final = 2**24  # More than any client puts into a batch; a lie about it must not eat up the offsets.
RECORD_BYTES_MIN: Final = 7  # An empty record: length, attributes, two deltas, null key, null value, no headers.

_unpack_header = HEADER.unpack_from
_SUSPICIOUS_BITS: Final = CODEC_MASK | CONTROL_BIT | LOG_APPEND_TIME_BIT
_LARGEST_INNOCENT: Final = Codec.ZSTD.value


class BatchLimits:
    """The part of a topic's configuration that `check_client_batch` reads, as plain attributes."""

    __slots__ = ("after_max_ms", "before_max_ms", "is_append_time", "max_message_bytes", "segment_bytes")

    def __init__(self, config: LogConfig) -> None:
        self.max_message_bytes = config.max_message_bytes
        self.segment_bytes = config.segment_bytes
        self.is_append_time = config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
        self.before_max_ms = config.message_timestamp_before_max_ms
        self.after_max_ms = config.message_timestamp_after_max_ms


def check_client_batch(batch: memoryview, limits: BatchLimits, now_ms: TimestampMs) -> tuple[int, ...]:
    """The fields of the header of `batch`, exactly one good batch, or an `ApiError` with the code clients expect."""
    size_bytes = len(batch)
    if size_bytes < HEADER_BYTES:
        raise ApiError(ErrorCode.INVALID_RECORD, f"{size_bytes} bytes hold no record batch")
    header = _unpack_header(batch)
    (
        _,
        batch_length,
        _,
        magic,
        crc,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    ) = header
    if magic != MAGIC:
        raise _wrong_magic(magic)
    if batch_length != size_bytes - LENGTH_OVERHEAD_BYTES:
        raise _wrong_length(batch_length + LENGTH_OVERHEAD_BYTES, size_bytes)
    if size_bytes > limits.max_message_bytes or size_bytes > limits.segment_bytes:
        raise _too_large(size_bytes, limits)
    if crc32c(batch[ATTRIBUTES_AT:]) != crc:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "the batch's checksum does not match its bytes")
    if last_offset_delta + 1 != record_count or not 0 < record_count <= RECORDS_MAX:
        raise ApiError(
            ErrorCode.INVALID_RECORD, f"{record_count} records cannot have the last offset delta {last_offset_delta}"
        )
    if size_bytes - HEADER_BYTES < (record_count * RECORD_BYTES_MIN if attributes & CODEC_MASK == 0 else 1):
        raise ApiError(ErrorCode.INVALID_RECORD, f"{record_count} records do not fit in {size_bytes} bytes")
    if attributes & _SUSPICIOUS_BITS > _LARGEST_INNOCENT:
        raise _wrong_attributes(attributes)
    if producer_id >= 0 and (base_sequence < 0 or producer_epoch < 0):
        raise ApiError(
            ErrorCode.INVALID_RECORD, f"producer {producer_id} with epoch {producer_epoch}, sequence {base_sequence}"
        )
    if not limits.is_append_time and (
        max_timestamp > now_ms + limits.after_max_ms or now_ms - base_timestamp > limits.before_max_ms
    ):
        _check_timestamps(base_timestamp, max_timestamp, limits, now_ms)
    return header


def _wrong_magic(magic: int) -> ApiError:
    if magic in (0, 1):
        return ApiError(ErrorCode.INVALID_RECORD, f"record format {magic} is no longer written: format {MAGIC} is")
    return ApiError(ErrorCode.CORRUPT_MESSAGE, f"there is no record format {magic}")


def _wrong_length(declared_bytes: int, size_bytes: int) -> ApiError:
    if HEADER_BYTES <= declared_bytes < size_bytes:
        return ApiError(
            ErrorCode.INVALID_RECORD, f"exactly one batch a partition: {size_bytes - declared_bytes} bytes follow it"
        )
    return ApiError(ErrorCode.CORRUPT_MESSAGE, f"a batch of {declared_bytes} bytes in {size_bytes}")


def _too_large(size_bytes: int, limits: BatchLimits) -> ApiError:
    if size_bytes > limits.max_message_bytes:
        return ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {size_bytes} bytes, max.message.bytes is {limits.max_message_bytes}",
        )
    return ApiError(
        ErrorCode.RECORD_LIST_TOO_LARGE,
        f"the batch has {size_bytes} bytes, a segment {limits.segment_bytes} (segment.bytes)",
    )


def _wrong_attributes(attributes: int) -> ApiError:
    if attributes & CONTROL_BIT:
        return ApiError(ErrorCode.INVALID_RECORD, "clients do not write control batches")
    if attributes & CODEC_MASK > Codec.ZSTD:
        return ApiError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"there is no compression codec {attributes & CODEC_MASK}"
        )
    return ApiError(ErrorCode.INVALID_TIMESTAMP, "LogAppendTime is the broker's to set")


def _check_timestamps(
    base_timestamp: TimestampMs, max_timestamp: TimestampMs, limits: BatchLimits, now_ms: TimestampMs
) -> None:
    """Header only: the first and the largest timestamp stand for those between. Records without one are fine."""
    if max_timestamp > now_ms + limits.after_max_ms:
        raise ApiError(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp {max_timestamp} is more than {limits.after_max_ms} ms ahead of the broker's {now_ms}",
        )
    if base_timestamp != NO_TIMESTAMP and now_ms - base_timestamp > limits.before_max_ms:
        raise ApiError(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp {base_timestamp} is more than {limits.before_max_ms} ms behind the broker's {now_ms}",
        )
