"""Replication throttles: while replicas are copied, how many bytes a second a broker may send and take for it.

Two settings work together, as in Kafka: each topic says *which* replicas are throttled (those that copy from, and those
that copy to), each broker *how much*. Replicas in sync are not in the lists, so a throttle never slows a producer down.
Left behind, they would slow down the next recovery: whoever sets them takes them away at the end.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ottla.base.types import NodeId, TopicPartition
from ottla.cli.balancing.model import Replicas
from ottla.client.admin import Admin
from ottla.client.cluster_states import Reassignment

LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
BROKER_RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


class Copying(NamedTuple):
    """A partition whose data flows from some replicas to others."""

    sources: Replicas
    destinations: Replicas


def copying_of(before: Replicas, after: Replicas) -> Copying:
    return Copying(before, tuple(replica for replica in after if replica not in before))


def copying_under_way(reassignment: Reassignment) -> Copying:
    sources = tuple(replica for replica in reassignment.replicas if replica not in reassignment.adding)
    return Copying(sources, reassignment.adding)


def throttled_replicas(copying: Mapping[TopicPartition, Copying]) -> dict[str, dict[str, str]]:
    """By topic the two settings, each a list of `partition:broker`."""
    settings: dict[str, dict[str, list[str]]] = {}
    for where, (sources, destinations) in sorted(copying.items()):
        if destinations:
            of_topic = settings.setdefault(where.topic, {LEADER_REPLICAS: [], FOLLOWER_REPLICAS: []})
            of_topic[LEADER_REPLICAS] += [f"{where.partition}:{node}" for node in sources]
            of_topic[FOLLOWER_REPLICAS] += [f"{where.partition}:{node}" for node in destinations]
    return {
        topic: {name: ",".join(entries) for name, entries in of_topic.items()} for topic, of_topic in settings.items()
    }


def brokers_copying(copying: Mapping[TopicPartition, Copying]) -> set[NodeId]:
    return {node for each in copying.values() if each.destinations for node in (*each.sources, *each.destinations)}


def set_throttles(admin: Admin, copying: Mapping[TopicPartition, Copying], bytes_per_second: int) -> None:
    """First how much, then which: a listed replica without a rate would not be throttled at all."""
    running = {broker.id for broker in admin.describe_members().brokers if not broker.is_fenced}
    set_rates(admin, brokers_copying(copying) & running, bytes_per_second)
    for topic, settings in throttled_replicas(copying).items():
        admin.alter_configs(topic, settings)


def set_rates(admin: Admin, brokers: Iterable[NodeId], bytes_per_second: int | None) -> None:
    for broker in sorted(brokers):
        admin.alter_configs(broker=broker, changes=dict.fromkeys(BROKER_RATES, bytes_per_second))


def remove_throttles(admin: Admin) -> list[str]:
    """Of all brokers that run and all topics; returns the topics that had one."""
    topics = throttled_topics(admin)
    for topic in topics:
        admin.alter_configs(topic, dict.fromkeys((LEADER_REPLICAS, FOLLOWER_REPLICAS)))
    running = [broker.id for broker in admin.describe_members().brokers if not broker.is_fenced]
    set_rates(admin, running, None)
    return topics


def throttled_topics(admin: Admin) -> list[str]:
    topics = sorted({partition.topic for partition in admin.list_partitions()})
    configs = admin.describe_topic_configs(topics, [LEADER_REPLICAS, FOLLOWER_REPLICAS])
    return [topic for topic, values in configs.items() if any(values.values())]
