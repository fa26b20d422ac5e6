"""A group as the commands show it: its members, and how far it is behind in every partition.

Lag in records is the end offset less the committed one (not below the partition's start): an upper bound, since
compaction and transaction markers leave gaps. Lag in seconds is how long the first unread record has been waiting:
now less that record's timestamp. It grows while a group stands still, which a count does not do on a quiet topic, and
it is as true as the producers' clocks are. Reading those records costs one small fetch a partition.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import confluent_kafka

from ottla.base.types import TopicPartition
from ottla.cli.connection import Connection
from ottla.cli.topic_state import offsets_at
from ottla.client.admin import Admin
from ottla.client.errors import ClientError
from ottla.client.groups import GroupDescription, GroupMember
from ottla.client.topics import OffsetSpec

FIRST_RECORDS_S_MAX: Final = 5.0  # A partition whose first unread record does not come in time has no lag in seconds.
POLL_SLICE_S: Final = 0.2
FIRST_RECORD_OPTIONS: Final[dict[str, Any]] = {
    "group.id": "ottla-cli",  # librdkafka wants one; nothing is ever committed to it
    "allow.auto.create.topics": False,
    "auto.offset.reset": "earliest",
    "enable.partition.eof": True,
    "max.partition.fetch.bytes": 4096,  # One record will do; a broker sends the first batch whatever its size.
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    partition: TopicPartition
    committed: int | None
    end: int | None
    lag: int | None
    lag_s: float | None
    member: GroupMember | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    description: GroupDescription
    partitions: tuple[PartitionLag, ...]

    @property
    def lag(self) -> int:
        """Of all partitions whose lag is known: those with a commit, a leader and a topic that still exists."""
        return sum(each.lag or 0 for each in self.partitions)

    @property
    def unknown_count(self) -> int:
        return sum(each.lag is None for each in self.partitions)

    @property
    def lag_s(self) -> float | None:
        return max((each.lag_s for each in self.partitions if each.lag_s is not None), default=None)


def group_state(connection: Connection, admin: Admin, group: str) -> GroupState:
    described = admin.describe_group(group)
    committed = {partition: position.offset for partition, position in admin.list_group_offsets(group).items()}
    owners = {partition: member for member in described.members for partition in member.partitions}
    partitions = sorted(committed.keys() | owners.keys() | siblings(admin, {each.topic for each in committed}))
    starts, ends = (
        known_offsets(admin, partitions, OffsetSpec.EARLIEST),
        known_offsets(admin, partitions, OffsetSpec.LATEST),
    )
    unread = {
        partition: max(committed[partition], starts[partition])
        for partition in partitions
        if partition in committed and partition in starts and partition in ends
    }
    lags = {partition: max(0, ends[partition] - offset) for partition, offset in unread.items()}
    waiting_s = seconds_waiting(connection, {each: offset for each, offset in unread.items() if lags[each]})
    return GroupState(
        description=described,
        partitions=tuple(
            PartitionLag(
                partition=partition,
                committed=committed.get(partition),
                end=ends.get(partition),
                lag=lags.get(partition),
                lag_s=0.0 if lags.get(partition) == 0 else waiting_s.get(partition),
                member=owners.get(partition),
            )
            for partition in partitions
        ),
    )


def siblings(admin: Admin, topics: Iterable[str]) -> set[TopicPartition]:
    """All partitions of these topics: one that was never committed has unread records, too."""
    found = set()
    for topic in topics:
        try:
            described = admin.describe_topic(topic)
        except ClientError:  # Deleted; the group remembers it until its offsets expire.
            continue
        found |= {TopicPartition(topic, info.partition) for info in described.partitions}
    return found


def known_offsets(admin: Admin, partitions: list[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
    """Of those that can be asked: a group may remember a topic that was deleted, or that has no leader now."""
    try:
        return offsets_at(admin, partitions, spec)
    except ClientError:
        if len(partitions) == 1:
            return {}
    return {
        partition: offset for each in partitions for partition, offset in known_offsets(admin, [each], spec).items()
    }


def seconds_waiting(connection: Connection, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
    """Of each partition's first record from its offset on, how long ago it was made."""
    if not offsets:
        return {}
    consumer = connection.consumer(FIRST_RECORD_OPTIONS)
    found: dict[TopicPartition, float] = {}
    pending = set(offsets)
    deadline = time.monotonic() + FIRST_RECORDS_S_MAX
    try:
        consumer.assign([confluent_kafka.TopicPartition(*partition, offset) for partition, offset in offsets.items()])
        while pending and time.monotonic() < deadline:
            message = consumer.poll(POLL_SLICE_S)
            if message is None:
                continue
            partition = TopicPartition(message.topic() or "", message.partition() or 0)
            if partition not in pending:
                continue
            pending.remove(partition)
            consumer.pause([confluent_kafka.TopicPartition(*partition)])
            kind, timestamp_ms = message.timestamp()
            if message.error() is None and kind != confluent_kafka.TIMESTAMP_NOT_AVAILABLE:
                found[partition] = max(0.0, time.time() - timestamp_ms / 1000)
    finally:
        consumer.close()
    return found
