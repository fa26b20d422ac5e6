"""Every topic configuration of Kafka 4.3, and the broker keys that give a topic its value when it sets none.

`TOPIC_SYNONYMS` is ordered by precedence: of several broker keys that are set in one layer the first counts
(log.retention.ms before .minutes before .hours). The factor turns the broker key's unit into the topic key's.
"""

from typing import Final, NamedTuple

from ottla.metadata.config_key import (
    LONG_MAX,
    Check,
    ConfigKey,
    ConfigValue,
    between,
    between_or,
    double,
    flag,
    int32,
    int64,
    names,
    one_of,
    text,
)

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

SEGMENT_BYTES_MIN: Final = (
    1 << 20
)  # Smaller segments drown a node in files (KIP-1030); tests use internal.segment.bytes.

COMPRESSION_TYPES: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
COMPRESSION_TYPE: Final = one_of(*COMPRESSION_TYPES)
CLEANUP_POLICY: Final = one_of("compact", "delete")
TIMESTAMP_TYPE: Final = one_of("CreateTime", "LogAppendTime")
GZIP_LEVEL: Final = between_or(1, 9, -1)
LZ4_LEVEL: Final = between(1, 17)
ZSTD_LEVEL: Final = between(-131072, 22)


def _throttled_replicas(value: ConfigValue) -> str | None:
    assert isinstance(value, tuple)
    if value in ((), ("*",)):
        return None
    for item in value:
        partition, colon, broker = item.partition(":")
        if not (colon and partition.isdigit() and broker.isdigit()):
            return f"{item!r} is not partition:broker; give a list of those or *"
    return None


THROTTLED_REPLICAS: Final[Check] = _throttled_replicas

TOPIC_KEYS: Final[tuple[ConfigKey, ...]] = (
    names("cleanup.policy", ("delete",), "Delete old segments, compact by key, or both.", check=CLEANUP_POLICY),
    int32("compression.gzip.level", -1, "Level when this topic re-compresses to gzip.", check=GZIP_LEVEL),
    int32("compression.lz4.level", 9, "Level when this topic re-compresses to lz4.", check=LZ4_LEVEL),
    text("compression.type", "producer", "Codec stored; producer keeps what was sent.", check=COMPRESSION_TYPE),
    int32("compression.zstd.level", 3, "Level when this topic re-compresses to zstd.", check=ZSTD_LEVEL),
    int64("delete.retention.ms", DAY_MS, "How long tombstones of a compacted topic stay readable.", minimum=0),
    int64("file.delete.delay.ms", MINUTE_MS, "How long a deleted segment's files are kept for readers.", minimum=0),
    int64("flush.messages", LONG_MAX, "Records after which the log is forced to disk; 1 is every batch.", minimum=1),
    int64("flush.ms", LONG_MAX, "Time after which the log is forced to disk.", minimum=0),
    names("follower.replication.throttled.replicas", (), "Followers to throttle: partition:broker or *.",
          check=THROTTLED_REPLICAS),
    int32("index.interval.bytes", 4096, "Bytes of log between two index entries.", minimum=0),
    int32("internal.segment.bytes", None, "segment.bytes without its bound, for tests.", minimum=1, internal=True),
    names("leader.replication.throttled.replicas", (), "Leaders to throttle: partition:broker or *.",
          check=THROTTLED_REPLICAS),
    int64("local.retention.bytes", -2, "Bytes kept on local disk with tiering; -2 is retention.bytes.", minimum=-2),
    int64("local.retention.ms", -2, "Time kept on local disk with tiering; -2 is retention.ms.", minimum=-2),
    int64("max.compaction.lag.ms", LONG_MAX, "Longest time a record may stay uncompacted.", minimum=1),
    int32("max.message.bytes", 1_048_588, "Largest record batch accepted, after compression.", minimum=0),
    int64("message.timestamp.after.max.ms", HOUR_MS, "How far a record's time may be ahead of ours.", minimum=0),
    int64("message.timestamp.before.max.ms", LONG_MAX, "How far a record's time may be behind ours.", minimum=0),
    text("message.timestamp.type", "CreateTime", "Who dates records: producer or broker.", check=TIMESTAMP_TYPE),
    double("min.cleanable.dirty.ratio", 0.5, "Share of uncompacted log that starts a compaction.", check=between(0, 1)),
    int64("min.compaction.lag.ms", 0, "Shortest time a record stays uncompacted.", minimum=0),
    int32("min.insync.replicas", 1, "Replicas that must have a write of acks=all; ours is 2 from three replicas on.",
          minimum=1),
    flag("preallocate", False, "Reserve a segment's space on disk when it is created."),
    flag("remote.log.copy.disable", False, "Stop uploading to the remote tier; what is there stays readable."),
    flag("remote.log.delete.on.disable", False, "Delete the remote tier's data when tiering is switched off."),
    flag("remote.storage.enable", False, "Keep closed segments in the remote tier, too."),
    int64("retention.bytes", -1, "Bytes kept per partition; -1 is no limit.", minimum=-1),
    int64("retention.ms", 7 * DAY_MS, "How long records are kept; -1 is for ever.", minimum=-1),
    int32("segment.bytes", 1 << 30, "Size at which a segment is closed and the next begun.", minimum=SEGMENT_BYTES_MIN),
    int32("segment.index.bytes", 10 << 20, "Largest index of one segment.", minimum=4),
    int64("segment.jitter.ms", 0, "Random part taken off segment.ms, so that not all roll at once.", minimum=0),
    int64("segment.ms", 7 * DAY_MS, "Age at which a segment is closed even if small.", minimum=1),
    flag("unclean.leader.election.enable", False, "Let an out-of-sync replica lead rather than nobody; may lose data."),
)  # fmt: skip


class Synonym(NamedTuple):
    broker_key: str
    factor: int = 1

    def to_topic_unit(self, value: ConfigValue) -> ConfigValue:
        """Negative values mean "no limit" in every unit."""
        if self.factor == 1 or not isinstance(value, int) or value < 0:
            return value
        return min(value * self.factor, LONG_MAX)


def _same(*keys: str) -> tuple[Synonym, ...]:
    return tuple(Synonym(key) for key in keys)


TOPIC_SYNONYMS: Final[dict[str, tuple[Synonym, ...]]] = {
    "cleanup.policy": _same("log.cleanup.policy"),
    "compression.gzip.level": _same("compression.gzip.level"),
    "compression.lz4.level": _same("compression.lz4.level"),
    "compression.type": _same("compression.type"),
    "compression.zstd.level": _same("compression.zstd.level"),
    "delete.retention.ms": _same("log.cleaner.delete.retention.ms"),
    "file.delete.delay.ms": _same("log.segment.delete.delay.ms"),
    "flush.messages": _same("log.flush.interval.messages"),
    "flush.ms": _same("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    "index.interval.bytes": _same("log.index.interval.bytes"),
    "local.retention.bytes": _same("log.local.retention.bytes"),
    "local.retention.ms": _same("log.local.retention.ms"),
    "max.compaction.lag.ms": _same("log.cleaner.max.compaction.lag.ms"),
    "max.message.bytes": _same("message.max.bytes"),
    "message.timestamp.after.max.ms": _same("log.message.timestamp.after.max.ms"),
    "message.timestamp.before.max.ms": _same("log.message.timestamp.before.max.ms"),
    "message.timestamp.type": _same("log.message.timestamp.type"),
    "min.cleanable.dirty.ratio": _same("log.cleaner.min.cleanable.ratio"),
    "min.compaction.lag.ms": _same("log.cleaner.min.compaction.lag.ms"),
    "min.insync.replicas": _same("min.insync.replicas"),
    "preallocate": _same("log.preallocate"),
    "retention.bytes": _same("log.retention.bytes"),
    "retention.ms": (
        Synonym("log.retention.ms"),
        Synonym("log.retention.minutes", MINUTE_MS),
        Synonym("log.retention.hours", HOUR_MS),
    ),
    "segment.bytes": _same("log.segment.bytes"),
    "segment.index.bytes": _same("log.index.size.max.bytes"),
    "segment.jitter.ms": (Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", HOUR_MS)),
    "segment.ms": (Synonym("log.roll.ms"), Synonym("log.roll.hours", HOUR_MS)),
    "unclean.leader.election.enable": _same("unclean.leader.election.enable"),
}
