"""What a topic's configuration says to its logs: Kafka's topic keys with underscores, Kafka's defaults.

The table of names in metadata/ produces one of these per topic and shares it between the topic's partitions; a changed
configuration is a new object, handed to `PartitionLog.update_config`.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from ottla.wire.batch import TimestampType
from ottla.wire.compression import GZIP_LEVEL_DEFAULT, LZ4_LEVEL_DEFAULT, ZSTD_LEVEL_DEFAULT, Codec

INT64_MAX: Final = 2**63 - 1
DAY_MS: Final = 24 * 60 * 60 * 1000
FOREVER: Final = -1  # Of retention.ms and retention.bytes.


class CleanupPolicy(Enum):
    DELETE = "delete"
    COMPACT = "compact"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    segment_bytes: int = 1024**3
    segment_ms: int = 7 * DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 1024**2
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * DAY_MS
    retention_bytes: int = FOREVER
    max_message_bytes: int = 1024**2 + 12  # The 12 bytes in front of a batch's length come on top of 1 MiB.
    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    message_timestamp_before_max_ms: int = INT64_MAX
    message_timestamp_after_max_ms: int = 60 * 60 * 1000
    flush_messages: int = INT64_MAX
    flush_ms: int = INT64_MAX
    compression_type: Codec | None = None  # None is `producer`: batches are stored as they came.
    compression_gzip_level: int = GZIP_LEVEL_DEFAULT
    compression_lz4_level: int = LZ4_LEVEL_DEFAULT
    compression_zstd_level: int = ZSTD_LEVEL_DEFAULT
    cleanup_policy: frozenset[CleanupPolicy] = frozenset({CleanupPolicy.DELETE})
    delete_retention_ms: int = DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = INT64_MAX
    min_cleanable_dirty_ratio: float = 0.5
    file_delete_delay_ms: int = 60_000
    producer_id_expiration_ms: int = DAY_MS
    min_insync_replicas: int = 1

    @property
    def deletes(self) -> bool:
        return CleanupPolicy.DELETE in self.cleanup_policy

    @property
    def compacts(self) -> bool:
        return CleanupPolicy.COMPACT in self.cleanup_policy

    @property
    def roll_after_ms(self) -> int:
        """`segment.ms`; a compacted log is not kept from cleaning its records in time by a segment that stays open."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms

    @property
    def compression_level(self) -> int | None:
        """The level for `compression_type`, where that codec has levels."""
        match self.compression_type:
            case Codec.GZIP:
                return self.compression_gzip_level
            case Codec.LZ4:
                return self.compression_lz4_level
            case Codec.ZSTD:
                return self.compression_zstd_level
            case _:
                return None
