"""From configuration values (metadata) to a log's configuration (log), which do not know each other."""

from collections.abc import Mapping
from typing import Any, Final

from ottla.log.config import CleanupPolicy, LogConfig
from ottla.metadata.config_key import ConfigValue
from ottla.wire.batch import TimestampType
from ottla.wire.compression import Codec

_AS_THEY_ARE: Final = {
    field.replace("_", "."): field
    for field in (
        "segment_bytes", "segment_ms", "segment_jitter_ms", "segment_index_bytes", "index_interval_bytes", "retention_ms",
        "retention_bytes", "max_message_bytes", "message_timestamp_before_max_ms", "message_timestamp_after_max_ms",
        "flush_messages", "flush_ms", "compression_gzip_level", "compression_lz4_level", "compression_zstd_level",
        "delete_retention_ms", "min_compaction_lag_ms", "max_compaction_lag_ms", "min_cleanable_dirty_ratio",
        "file_delete_delay_ms", "min_insync_replicas",
    )
}  # fmt: skip
_CODECS: Final = {
    "producer": None,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
_TIMESTAMP_TYPES: Final = {"CreateTime": TimestampType.CREATE_TIME, "LogAppendTime": TimestampType.LOG_APPEND_TIME}


def log_config_of(values: Mapping[str, ConfigValue], *, producer_id_expiration_ms: int) -> LogConfig:
    """`values` holds every topic key's value in force, by Kafka's names."""
    fields: dict[str, Any] = {field: values[name] for name, field in _AS_THEY_ARE.items()}
    policies = values["cleanup.policy"]
    assert isinstance(policies, tuple)
    return LogConfig(
        **fields,
        message_timestamp_type=_TIMESTAMP_TYPES[str(values["message.timestamp.type"])],
        compression_type=_CODECS[str(values["compression.type"])],
        cleanup_policy=frozenset(CleanupPolicy(policy) for policy in policies),
        producer_id_expiration_ms=producer_id_expiration_ms,
    )
