"""Topics as the commands show them: what the cluster says about partitions, offsets and sizes, in one value each.

Nothing here creates a topic by looking at it.
"""

import base64
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from ottla.base.types import Offset, TopicPartition
from ottla.client.admin import Admin
from ottla.client.errors import ClientError, PartialFailure
from ottla.client.topics import OffsetSpec, PartitionInfo, TopicDescription

PROPAGATION_TIMEOUT_S: Final = 5.0
PROPAGATION_POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    start_offset: int | None = None
    end_offset: int | None = None
    size_bytes: int | None = None

    @property
    def record_count(self) -> int | None:
        """An upper bound: compaction and transaction markers leave gaps in the offsets."""
        if self.start_offset is None or self.end_offset is None:
            return None
        return self.end_offset - self.start_offset

    @property
    def health(self) -> str:
        if self.leader is None:
            return "offline"
        return "ok" if len(self.isr) == len(self.replicas) else "under-replicated"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    name: str
    topic_id: str
    is_internal: bool
    partitions: tuple[PartitionState, ...]

    @property
    def replication_factor(self) -> int:
        return max((len(partition.replicas) for partition in self.partitions), default=0)

    @property
    def record_count(self) -> int | None:
        return total(partition.record_count for partition in self.partitions)

    @property
    def size_bytes(self) -> int | None:
        return total(partition.size_bytes for partition in self.partitions)

    @property
    def health(self) -> str:
        troubled = [partition.health for partition in self.partitions if partition.health != "ok"]
        return ", ".join(f"{troubled.count(kind)} {kind}" for kind in sorted(set(troubled))) or "ok"


def total(parts: Iterable[int | None]) -> int | None:
    """The sum, or None where any part is unknown: half a sum would read as the whole."""
    known = list(parts)
    return None if None in known else sum(part for part in known if part is not None)


def describe(admin: Admin, names: Sequence[str]) -> list[TopicState]:
    """In the order of `names`, without offsets and sizes yet."""
    described = admin.describe_topics(names) if names else {}
    return [topic_state(described[name]) for name in names]


def describe_created(admin: Admin, names: Sequence[str]) -> list[TopicState]:
    """Of topics whose creation the controller has confirmed: another broker may hear of them a moment later."""
    deadline = time.monotonic() + PROPAGATION_TIMEOUT_S
    while True:
        try:
            return describe(admin, names)
        except ClientError as error:
            is_unknown = error.code == "UNKNOWN_TOPIC_OR_PARTITION" or isinstance(error, PartialFailure)
            if not is_unknown or time.monotonic() > deadline:
                raise
            time.sleep(PROPAGATION_POLL_S)


def topic_state(description: TopicDescription) -> TopicState:
    return TopicState(
        name=description.name,
        topic_id=topic_id_text(description.topic_id),
        is_internal=description.is_internal,
        partitions=tuple(
            PartitionState(
                partition=info.partition, leader=leader_of(info), replicas=info.replicas, isr=info.in_sync_replicas
            )
            for info in sorted(description.partitions, key=lambda info: info.partition)
        ),
    )


def leader_of(info: PartitionInfo) -> int | None:
    return None if info.leader is None or info.leader < 0 else info.leader


def topic_id_text(topic_id: UUID) -> str:
    """As Kafka's tools print it."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def with_offsets(admin: Admin, topics: Sequence[TopicState]) -> list[TopicState]:
    """The same topics with start and end offsets; a partition without a leader keeps None."""
    led = [
        TopicPartition(topic.name, each.partition)
        for topic in topics
        for each in topic.partitions
        if each.leader is not None
    ]
    starts = offsets_at(admin, led, OffsetSpec.EARLIEST)
    ends = offsets_at(admin, led, OffsetSpec.LATEST)
    return [
        replace(
            topic, partitions=tuple(partition_with_offsets(topic.name, each, starts, ends) for each in topic.partitions)
        )
        for topic in topics
    ]


def partition_with_offsets(
    topic: str, state: PartitionState, starts: Mapping[TopicPartition, Offset], ends: Mapping[TopicPartition, Offset]
) -> PartitionState:
    where = TopicPartition(topic, state.partition)
    return replace(state, start_offset=starts.get(where), end_offset=ends.get(where))


def offsets_at(
    admin: Admin, partitions: Sequence[TopicPartition], spec: OffsetSpec | int
) -> dict[TopicPartition, Offset]:
    if not partitions:
        return {}
    found = admin.list_offsets(dict.fromkeys(partitions, spec))
    return {partition: listed.offset for partition, listed in found.items()}


def with_sizes(topics: Sequence[TopicState], sizes: Mapping[TopicPartition, int]) -> list[TopicState]:
    return [
        replace(
            topic,
            partitions=tuple(
                replace(each, size_bytes=sizes.get(TopicPartition(topic.name, each.partition)))
                for each in topic.partitions
            ),
        )
        for topic in topics
    ]
