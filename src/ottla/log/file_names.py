"""The names of a partition's files. A segment's files share its base offset, twenty digits long, as their stem."""

from typing import Final

from ottla.base.types import Offset, TopicPartition

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TRANSACTION_INDEX: Final = ".txnindex"
PRODUCER_SNAPSHOT: Final = ".snapshot"
SEGMENT_SUFFIXES: Final = (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)

DELETED: Final = ".deleted"  # Renamed away by retention, removed a minute later.
CLEANED: Final = ".cleaned"  # Compaction was still writing it.
SWAP: Final = ".swap"  # Compaction had finished it and was about to put it in place.

LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"

DELETED_DIRECTORY: Final = "-delete"
FUTURE_DIRECTORY: Final = "-future"
STRAY_DIRECTORY: Final = "-stray"

_DIRECTORY_NAME_MAX: Final = 255
_STEM_DIGITS: Final = 20


def stem(base_offset: Offset) -> str:
    return f"{base_offset:020d}"


def split_name(name: str) -> tuple[Offset, str] | None:
    """The offset in front and the suffix behind it; `None` for a file that is not named by an offset."""
    digits = name[:_STEM_DIGITS]
    if len(digits) < _STEM_DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits), name[_STEM_DIGITS:]


def parse_directory_name(name: str) -> TopicPartition | None:
    """`orders-7` is partition 7 of `orders`; anything else in a log directory is not a partition."""
    topic, dash, partition = name.rpartition("-")
    if not (dash and topic and partition.isascii() and partition.isdigit()):
        return None
    return TopicPartition(topic, int(partition))


def deleted_directory_name(topic_partition: TopicPartition, unique: str) -> str:
    """Where a deleted partition waits for its removal; `unique` keeps a recreated topic's second deletion apart."""
    return _name_besides(topic_partition, unique, DELETED_DIRECTORY)


def stray_directory_name(topic_partition: TopicPartition, unique: str) -> str:
    """Where a directory is kept that is of no partition of this node; `unique` as above."""
    return _name_besides(topic_partition, unique, STRAY_DIRECTORY)


def _name_besides(topic_partition: TopicPartition, unique: str, ending: str) -> str:
    suffix = f"-{topic_partition.partition}.{unique}{ending}"
    return topic_partition.topic[: _DIRECTORY_NAME_MAX - len(suffix)] + suffix
