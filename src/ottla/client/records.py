"""What goes in and out of the clients: plain values that own no connection.

`ConsumerRecord` and `RecordMetadata` are named tuples because there is one per message.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias, overload

from ottla.base.types import NO_EPOCH, TopicPartition
from ottla.client.text import c_text

Headers: TypeAlias = Mapping[str, str | bytes | None] | Iterable[tuple[str, str | bytes | None]]
Partitions: TypeAlias = TopicPartition | Iterable[TopicPartition | tuple[str, int]]


class TimestampType(IntEnum):
    NOT_AVAILABLE = 0
    CREATE_TIME = 1
    LOG_APPEND_TIME = 2


class RecordMetadata(NamedTuple):
    """Where a record went. `offset` is -1 with acks=0: nobody told."""

    topic: str
    partition: int
    offset: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class ProducerRecord:
    """A record to send, in the order of the Java class: topic, key, value."""

    topic: str
    key: object = None
    value: object = None
    partition: int | None = None
    headers: Headers | None = None
    timestamp_ms: int | None = None


class ConsumerRecord(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: Any
    value: Any
    headers: list[tuple[str, bytes | None]]
    leader_epoch: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class OffsetAndMetadata(NamedTuple):
    """A position to commit: `offset` is the next one to read. The epoch lets a broker notice truncation."""

    offset: int
    metadata: str = ""
    leader_epoch: int = NO_EPOCH


class ConsumerOffsets(dict[TopicPartition, OffsetAndMetadata]):
    """Offsets that remember which group they are for, so that a transaction needs no more than them."""

    def __init__(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group_metadata: Callable[[], object] | None = None
    ) -> None:
        super().__init__(offsets)
        self.group_metadata = group_metadata


Offsets: TypeAlias = Mapping[TopicPartition, int] | Mapping[TopicPartition, OffsetAndMetadata]


class ConsumerRecords(Sequence[ConsumerRecord]):
    """What one poll returned, in the order of each partition; false when it is empty."""

    __slots__ = ("_group_metadata", "_records")

    def __init__(self, records: list[ConsumerRecord], group_metadata: Callable[[], object] | None = None) -> None:
        self._records = records
        self._group_metadata = group_metadata

    @overload
    def __getitem__(self, index: int) -> ConsumerRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[ConsumerRecord]: ...
    def __getitem__(self, index: int | slice) -> ConsumerRecord | list[ConsumerRecord]:
        return self._records[index]

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return iter(self._records)

    def __repr__(self) -> str:
        return f"ConsumerRecords({len(self._records)} records of {len(self.by_partition())} partitions)"

    def by_partition(self) -> dict[TopicPartition, list[ConsumerRecord]]:
        grouped: dict[TopicPartition, list[ConsumerRecord]] = defaultdict(list)
        for record in self._records:
            grouped[record.topic_partition].append(record)
        return dict(grouped)

    def next_offsets(self) -> ConsumerOffsets:
        """What to commit once all of these are processed (KIP-1094)."""
        positions = {partition: position_after(records[-1]) for partition, records in self.by_partition().items()}
        return ConsumerOffsets(positions, self._group_metadata)


def position_after(record: ConsumerRecord) -> OffsetAndMetadata:
    return OffsetAndMetadata(record.offset + 1, leader_epoch=record.leader_epoch)


def partition_list(given: Partitions) -> list[TopicPartition]:
    """One partition, or many; a plain (topic, partition) pair will do."""
    if isinstance(given, TopicPartition):
        return [given]
    return [TopicPartition(*pair) for pair in given]


def header_list(headers: Headers) -> list[tuple[str, str | bytes | None]]:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return [(c_text(name, "the header name"), value) for name, value in pairs]
