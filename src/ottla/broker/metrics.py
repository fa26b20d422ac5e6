"""What a node tells of itself to whoever looks after it, read at the moment it is asked; nothing is kept for it.

Kafka's names where it has one, as the usual exporter of its beans writes them, so that dashboards and alerts fit. What a
client can learn by the protocol (lag, offline partitions, the quorum) is not repeated here: `ottla cluster status`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ottla.broker.node import Node


class Metric(NamedTuple):
    name: str
    description: str
    value: float
    only_grows: bool = False


def metrics_of(node: "Node") -> list[Metric]:
    return [*_of_controller(node), *_of_replicas(node), *_of_transactions(node)]


def _of_controller(node: "Node") -> Iterator[Metric]:
    yield Metric(
        "kafka_controller_kafkacontroller_activecontrollercount",
        "1 at the active controller, 0 elsewhere.",
        node.active_controller.is_active,
    )
    yield Metric(
        "kafka_controller_controllerstats_uncleanleaderelections",
        "Elections of a replica that was not in sync, in the whole cluster since this process began: each may have lost"
        " acknowledged records.",
        node.active_controller.unclean_election_count,
        only_grows=True,
    )


def _of_replicas(node: "Node") -> Iterator[Metric]:
    partitions = [*node.partitions]
    led = [one for one in partitions if one.is_leading]
    short = sum(len(one.isr) < len(one.replicas) for one in led)
    yield Metric("kafka_server_replicamanager_partitioncount", "Replicas that this node has.", len(partitions))
    yield Metric("kafka_server_replicamanager_leadercount", "Partitions that this node leads.", len(led))
    yield Metric(
        "kafka_server_replicamanager_underreplicatedpartitions",
        "Of the partitions that it leads, those with a replica that is not in sync.",
        short,
    )
    yield Metric(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "Log directories that take no writes: full or failed.",
        sum(storage.is_refusing for storage in node.directories),
    )
    yield Metric(
        "ottla_log_cut_records",
        "Records cut off this node's logs since it began, because the leader has something else there.",
        sum(storage.cut_record_count for storage in node.directories),
        only_grows=True,
    )
    yield Metric(
        "ottla_log_lost_records",
        "Those of them that were known to be committed: what an unclean election cost.",
        sum(storage.lost_record_count for storage in node.directories),
        only_grows=True,
    )


def _of_transactions(node: "Node") -> Iterator[Metric]:
    now_ms = node.clock.now_ms()
    waiting = [
        max(now_ms - one.started_ms, 0) / 1000
        for machine in node.coordinators.transactions.machines().values()
        for one in machine.awaiting_decision()
    ]
    yield Metric(
        "ottla_transactions_prepared",
        "Open two-phase transactions that this node coordinates: others decide upon them.",
        len(waiting),
    )
    yield Metric(
        "ottla_transactions_prepared_age_seconds",
        "How long the oldest of them is open; its readers of committed data wait for so long.",
        max(waiting, default=0.0),
    )
