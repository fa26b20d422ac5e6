"""What `ottla doctor` looks at: the cluster twice, some seconds apart, so that what should move and does not is seen.

Byte rates are the growth of logs, progress of groups is that of their committed offsets. Everything is asked of the
cluster as any client may; nothing is kept between two runs.
"""

import socket
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

import confluent_kafka

from ottla.base.types import NodeId, TopicPartition
from ottla.cli.cluster_model import growth_rates, largest_copies
from ottla.cli.cluster_state import ClusterState, cluster_state
from ottla.cli.connection import KNOCK_TIMEOUT_S, Connection
from ottla.cli.group_state import FIRST_RECORD_OPTIONS, known_offsets, seconds_waiting
from ottla.cli.throttle import throttled_topics
from ottla.client.admin import Admin
from ottla.client.cluster_states import BrokerState, LogDirectory
from ottla.client.errors import ClientError
from ottla.client.groups import GroupDescription, GroupMember
from ottla.client.topics import OffsetSpec
from ottla.wire import api
from ottla.wire.apis import ApiKey

HOT_FACTOR: Final = 5.0  # Seed and operators speak of ten; at five it is on its way there.
HOT_BYTES_PER_SECOND_MIN: Final = 100_000  # Below, no broker notices.
HOT_SAMPLED_MAX: Final = 3
KEYS_SAMPLED: Final = 500
KEYS_S_MAX: Final = 5.0
PARTITIONS_MAX: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """A partition in which a group has unread records and committed nothing between the two looks."""

    partition: TopicPartition
    committed: int
    end: int
    end_grew: bool
    waited_s: float | None
    member: GroupMember | None

    @property
    def lag(self) -> int:
        return self.end - self.committed


@dataclass(frozen=True, slots=True, kw_only=True)
class StalledGroup:
    description: GroupDescription
    stalls: tuple[Stall, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HotPartition:
    """`key_share` is that of the commonest key among the last records; None where there are none, or they have no key."""

    partition: TopicPartition
    bytes_per_second: float
    others_bytes_per_second: float
    key: str | None = None
    key_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    seconds: float
    state: ClusterState
    directories: Mapping[NodeId, Sequence[LogDirectory]]
    growth: Mapping[NodeId, float]
    hot: tuple[HotPartition, ...]
    stalled: tuple[StalledGroup, ...]
    group_count: int
    unreachable: Mapping[NodeId, str]
    bootstrap_hosts: tuple[str, ...]
    throttled_topics: tuple[str, ...]
    last_in_sync: Mapping[TopicPartition, tuple[NodeId, ...]] = field(default_factory=dict)
    """Of partitions without a leader: who has everything that was committed."""
    replaced_disks: Mapping[TopicPartition, tuple[NodeId, ...]] = field(default_factory=dict)
    """Those of them that run, with another disk than their copy was on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One of the two."""

    directories: Mapping[NodeId, list[LogDirectory]]
    groups: Mapping[str, GroupDescription]
    committed: Mapping[str, Mapping[TopicPartition, int]]
    ends: Mapping[TopicPartition, int]


def gather(connection: Connection, sample_s: float, *, sleep: Callable[[float], None] = time.sleep) -> Evidence:
    admin = connection.admin()
    unreachable = unreachable_brokers(admin.describe_members().brokers)
    started, first = time.monotonic(), look(admin, unreachable)
    sleep(sample_s)
    second = look(admin, unreachable)
    seconds = time.monotonic() - started
    state = cluster_state(admin)
    described = describe_partitions(connection, state.offline)
    holders = last_in_sync(described, state.offline)
    rates = growth_rates(largest_copies(first.directories), largest_copies(second.directories), seconds)
    return Evidence(
        seconds=seconds,
        state=state,
        directories=second.directories,
        growth={
            node: max(0, stored_bytes(second.directories[node]) - stored_bytes(first.directories.get(node, ())))
            / seconds
            for node in second.directories
        },
        hot=tuple(with_key(connection, each, second.ends) for each in hot_partitions(rates)),
        stalled=stalled_groups(connection, first, second),
        group_count=len(second.groups),
        unreachable=unreachable,
        bootstrap_hosts=tuple(address.host for address in connection.addresses),
        throttled_topics=() if state.reassignments else tuple(throttled_topics(admin)),
        last_in_sync=holders,
        replaced_disks=replaced_disks(described, holders, state, second.directories),
    )


def describe_partitions(
    connection: Connection, partitions: Sequence[TopicPartition]
) -> api.DescribeTopicPartitionsResponse:
    """Of their topics; empty where brokers cannot tell."""
    kind = api.DescribeTopicPartitionsRequest
    topics = sorted({each.topic for each in partitions})
    request = kind(topics=[kind.TopicRequest(name=topic) for topic in topics], response_partition_limit=PARTITIONS_MAX)
    if topics:
        with connection.cluster() as cluster, suppress(ClientError):
            return cluster.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, request, api.DescribeTopicPartitionsResponse)
    return api.DescribeTopicPartitionsResponse()


def last_in_sync(
    described: api.DescribeTopicPartitionsResponse, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, tuple[NodeId, ...]]:
    """In sync or eligible to lead (KIP-966), else the last that were."""
    found = {}
    for topic in described.topics:
        for each in topic.partitions:
            holders = {*each.isr_nodes, *(each.eligible_leader_replicas or ())} or {*(each.last_known_elr or ())}
            found[TopicPartition(topic.name or "", each.partition_index)] = tuple(sorted(holders))
    return {where: found[where] for where in partitions if found.get(where)}


def replaced_disks(
    described: api.DescribeTopicPartitionsResponse,
    last_in_sync: Mapping[TopicPartition, tuple[NodeId, ...]],
    state: ClusterState,
    directories: Mapping[NodeId, Sequence[LogDirectory]],
) -> dict[TopicPartition, tuple[NodeId, ...]]:
    """Who had everything and runs, but has no directory of the copy: neither among its own nor among those that failed."""
    sound = {
        broker.id
        for broker in state.brokers
        if not broker.is_fenced and all(one.error is None for one in directories.get(broker.id, ()))
    }
    offline = {
        TopicPartition(topic.name or "", each.partition_index): sound.intersection(each.offline_replicas)
        for topic in described.topics
        for each in topic.partitions
    }
    found = {
        where: tuple(node for node in holders if node in offline[where]) for where, holders in last_in_sync.items()
    }
    return {where: nodes for where, nodes in found.items() if nodes}


def look(admin: Admin, unreachable: Collection[NodeId] = ()) -> Look:
    """Without what only those could tell; groups are then left out as a whole, for any broker may coordinate some."""
    listings = [] if unreachable else admin.list_groups()
    groups = admin.describe_groups([listing.group for listing in listings], missing_ok=True) if listings else {}
    committed = {
        group: {where: position.offset for where, position in admin.list_group_offsets(group).items()}
        for group in groups
    }
    partitions = admin.list_partitions()
    led = sorted(where for where, info in partitions.items() if info.leader not in (None, *unreachable))
    return Look(
        directories=admin.describe_log_directories(),
        groups=groups,
        committed=committed,
        ends=known_offsets(admin, led, OffsetSpec.LATEST),
    )


def stored_bytes(directories: Sequence[LogDirectory]) -> int:
    return sum(sum(directory.sizes.values()) for directory in directories)


def hot_partitions(rates: Mapping[TopicPartition, float]) -> list[HotPartition]:
    """The hottest first. Hot is what is written to many times as fast as the other partitions of its topic on average."""
    by_topic: dict[str, dict[TopicPartition, float]] = {}
    for where, rate in rates.items():
        by_topic.setdefault(where.topic, {})[where] = rate
    found = []
    for of_topic in by_topic.values():
        for where, rate in of_topic.items():
            if len(of_topic) < 2 or rate < HOT_BYTES_PER_SECOND_MIN:
                continue
            others = (sum(of_topic.values()) - rate) / (len(of_topic) - 1)
            if rate >= HOT_FACTOR * others:
                found.append(HotPartition(partition=where, bytes_per_second=rate, others_bytes_per_second=others))
    return sorted(found, key=lambda each: -each.bytes_per_second)[:HOT_SAMPLED_MAX]


def with_key(connection: Connection, hot: HotPartition, ends: Mapping[TopicPartition, int]) -> HotPartition:
    keys = last_keys(connection, hot.partition, ends.get(hot.partition, 0))
    if not keys:
        return hot
    [(key, count)] = Counter(keys).most_common(1)
    if key is None:
        return hot
    return replace(hot, key=key.decode(errors="backslashreplace"), key_share=count / len(keys))


def last_keys(connection: Connection, partition: TopicPartition, end: int) -> list[bytes | None]:
    """Of the last records before `end`."""
    options: dict[str, Any] = {**FIRST_RECORD_OPTIONS, "max.partition.fetch.bytes": 1 << 20}
    consumer = connection.consumer(options)
    keys: list[bytes | None] = []
    deadline = time.monotonic() + KEYS_S_MAX
    try:
        consumer.assign([confluent_kafka.TopicPartition(*partition, max(0, end - KEYS_SAMPLED))])
        while len(keys) < KEYS_SAMPLED and time.monotonic() < deadline:
            messages = consumer.consume(KEYS_SAMPLED, timeout=0.5)
            records = [message for message in messages if message.error() is None]
            keys += [message.key() for message in records]
            if len(records) < len(messages):  # The end of the partition.
                break
    finally:
        consumer.close()
    return keys


def stalled_groups(connection: Connection, first: Look, second: Look) -> tuple[StalledGroup, ...]:
    found = []
    for group, description in sorted(second.groups.items()):
        if stalls := group_stalls(group, first, second):
            waited_s = seconds_waiting(connection, {stall.partition: stall.committed for stall in stalls})
            timed = tuple(replace(stall, waited_s=waited_s.get(stall.partition)) for stall in stalls)
            found.append(StalledGroup(description=description, stalls=timed))
    return tuple(found)


def group_stalls(group: str, first: Look, second: Look) -> list[Stall]:
    owners = {where: member for member in second.groups[group].members for where in member.partitions}
    before, after = first.committed.get(group, {}), second.committed[group]
    return [
        Stall(
            partition=where,
            committed=committed,
            end=second.ends[where],
            end_grew=second.ends[where] > first.ends.get(where, second.ends[where]),
            waited_s=None,
            member=owners.get(where),
        )
        for where, committed in sorted(after.items())
        if before.get(where) == committed and where in second.ends and committed < second.ends[where]
    ]


def unreachable_brokers(brokers: Sequence[BrokerState]) -> dict[NodeId, str]:
    """Those that run, but not at an address where this machine finds them; with what happened."""
    found = {}
    for broker in brokers:
        if broker.is_fenced:
            continue
        try:
            socket.create_connection((broker.host, broker.port), timeout=KNOCK_TIMEOUT_S).close()
        except (OSError, UnicodeError) as error:
            found[broker.id] = str(error)
    return found
