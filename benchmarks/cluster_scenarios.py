"""Three nodes of each, RF 3, min ISR 2, acks=all: rates, latencies, and how long a client waits when a node goes.

Clients have librdkafka's defaults but for acks=all. Faults hit the node that matters: the leader of the partition, the
active controller, the coordinator of the group or of the transaction.
"""

import os
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from benchmarks.cluster_gaps import (
    SETTLED_SECONDS,
    Work,
    commits_offsets,
    commits_transactions,
    leader_of,
    produces,
    produces_impatiently,
    steady,
    wait_in_sync,
)
from benchmarks.cluster_peers import Cluster
from benchmarks.full_coordinators import (
    COORDINATED,
    FULL_PARTITION,
    OFFSETS,
    TRANSACTIONS,
    fill_offsets,
    fill_transactions,
    name_in_full_partition,
)
from benchmarks.latency import end_to_end
from benchmarks.requests import one_at_a_time
from benchmarks.rounds import Goal, Metric, Round, Scenario
from ottla.client.load import produce_load
from ottla.coordinator.placement import partition_for

KILOBYTE: Final = 1024
COUNT_1K: Final = 500_000
COUNT_100B: Final = 2_000_000
PARTITIONS: Final = 12
ACKS_ALL: Final = {"acks": "all"}
REST_SECONDS: Final = 15.0  # For a node that was killed in the round before: it reads its full partition first.
PAUSE_SECONDS: Final = 12.0  # Longer than a broker's session of nine seconds.


def _cluster(turn: Round) -> Cluster[Any]:
    return cast("Cluster[Any]", turn.peer)


def _produce(message_bytes: int, full_count: int, partitions: int = 1) -> Callable[[Round], Mapping[str, float]]:
    def measure(turn: Round) -> Mapping[str, float]:
        topic = turn.create_topic(partitions=partitions)
        load = produce_load(
            turn.peer.bootstrap,
            topic,
            message_bytes=message_bytes,
            count=turn.scaled(full_count),
            partition=0 if partitions == 1 else None,
            config=ACKS_ALL,
        )
        return {"rate": load.messages_per_second}

    return measure


def _memory(turn: Round) -> Mapping[str, float]:
    return {"resident": _cluster(turn).resident_bytes() / 1e6}


# -- faults ---------------------------------------------------------------------------------------------------------------


def _gap(
    begin: Callable[[Cluster[Any], str], Callable[[], None]],
    victim: Callable[[Cluster[Any], str], int],
    harm: Callable[[Cluster[Any], int, Work], None],
    fill: Callable[[Round, Cluster[Any]], None] | None = None,
) -> Callable[[Round], Mapping[str, float]]:
    def measure(turn: Round) -> Mapping[str, float]:
        cluster, topic = _cluster(turn), turn.create_topic()
        if fill is not None and turn.index == 0:
            fill(turn, cluster)
        elif fill is not None:
            time.sleep(REST_SECONDS)
        with steady(begin(cluster, topic)) as work:
            wait_in_sync(cluster, topic)
            harm(cluster, victim(cluster, topic), work)
            gap_ms = work.finish()
        wait_in_sync(cluster, topic)
        return {"gap": gap_ms, "errors": work.error_count}

    return measure


def _kill(cluster: Cluster[Any], node_id: int, work: Work) -> None:
    cluster.nodes[node_id].kill()
    work.wait_for_successes(SETTLED_SECONDS)
    cluster.nodes[node_id].start()


def _pause(cluster: Cluster[Any], node_id: int, work: Work) -> None:
    pid = cluster.nodes[node_id].process.pid
    os.kill(pid, signal.SIGSTOP)
    time.sleep(PAUSE_SECONDS)
    work.wait_for_successes(SETTLED_SECONDS)
    os.kill(pid, signal.SIGCONT)


def _restart_each(cluster: Cluster[Any], _: int, work: Work) -> None:
    for node in cluster.nodes.values():
        node.stop()
        work.wait_for_successes(SETTLED_SECONDS)
        node.start()
        wait_in_sync(cluster)


def _group_of(topic: str) -> str:
    return f"group-{topic}"


def _gap_metrics(title: str, goal_ms: float) -> tuple[Metric, Metric]:
    return (
        Metric(key="gap", title=f"longest gap, {title}", unit="ms", goal=Goal(ours_max=goal_ms)),
        Metric(key="errors", title="  errors at the client", unit=""),
    )


SCENARIOS: Final = (
    Scenario(
        name="cluster-produce-1k",
        metrics=(Metric(key="rate", title="produce 1 KB", unit="messages/s", goal=Goal(ratio_min=1.8)),),
        measure=_produce(KILOBYTE, COUNT_1K),
    ),
    Scenario(
        name="cluster-produce-100b",
        metrics=(Metric(key="rate", title="produce 100 B", unit="messages/s", goal=Goal(ratio_min=1.3)),),
        measure=_produce(100, COUNT_100B),
    ),
    Scenario(
        name="cluster-produce-12-partitions",
        metrics=(Metric(key="rate", title="produce 1 KB to 12 partitions", unit="messages/s"),),
        measure=_produce(KILOBYTE, COUNT_1K, PARTITIONS),
    ),
    Scenario(
        name="cluster-synchronous-produce",
        metrics=(
            Metric(key="p50", title="one synchronous produce, p50", unit="ms", goal=Goal(ratio_max=0.7)),
            Metric(key="p99", title="  p99", unit="ms", goal=Goal(ratio_max=0.4)),
        ),
        measure=one_at_a_time(ACKS_ALL),
    ),
    Scenario(
        name="cluster-end-to-end-20000",
        metrics=(
            Metric(key="p50", title="end to end, 20,000/s of 1 KB, p50", unit="ms"),
            Metric(key="p99", title="  p99", unit="ms", goal=Goal(ratio_max=0.2, ours_max=10)),
        ),
        measure=end_to_end(20, ACKS_ALL),
    ),
    Scenario(
        name="cluster-memory",
        metrics=(
            Metric(
                key="resident", title="memory of all three nodes after the load", unit="MB", goal=Goal(ratio_max=0.15)
            ),
        ),
        measure=_memory,
        rounds_max=1,
    ),
    Scenario(
        name="cluster-kill-leader",
        metrics=_gap_metrics("kill -9 of the leader", 1000),
        measure=_gap(produces, leader_of, _kill),
    ),
    Scenario(
        name="cluster-kill-controller",
        metrics=_gap_metrics("kill -9 of the controller", 1000),
        measure=_gap(produces, lambda cluster, _: cluster.controller_id(), _kill),
    ),
    Scenario(
        name="cluster-kill-group-coordinator",
        metrics=_gap_metrics("kill -9 of a group's coordinator", 1000),
        measure=_gap(
            lambda cluster, topic: commits_offsets(cluster, topic, _group_of(topic)),
            lambda cluster, topic: leader_of(cluster, OFFSETS, partition_for(_group_of(topic), COORDINATED)),
            _kill,
        ),
    ),
    Scenario(
        name="cluster-kill-transaction-coordinator",
        metrics=_gap_metrics("kill -9 of a transaction's coordinator", 1000),
        measure=_gap(
            lambda cluster, topic: commits_transactions(cluster, topic, topic),
            lambda cluster, topic: leader_of(cluster, TRANSACTIONS, partition_for(topic, COORDINATED)),
            _kill,
        ),
    ),
    Scenario(
        name="cluster-kill-full-group-coordinator",
        metrics=_gap_metrics("kill -9 of a group's coordinator with 1 M commits of 1,000 groups", 1000),
        measure=_gap(
            lambda cluster, topic: commits_offsets(cluster, topic, name_in_full_partition(topic)),
            lambda cluster, _: leader_of(cluster, OFFSETS, FULL_PARTITION),
            _kill,
            fill_offsets,
        ),
    ),
    Scenario(
        name="cluster-kill-full-transaction-coordinator",
        metrics=_gap_metrics("kill -9 of a transaction's coordinator with 10,000 ids", 1000),
        measure=_gap(
            lambda cluster, topic: commits_transactions(cluster, topic, name_in_full_partition(topic)),
            lambda cluster, _: leader_of(cluster, TRANSACTIONS, FULL_PARTITION),
            _kill,
            fill_transactions,
        ),
    ),
    Scenario(
        name="cluster-pause-leader",
        metrics=_gap_metrics("SIGSTOP of the leader", 10_000),
        measure=_gap(produces, leader_of, _pause),
        rounds_max=1,
    ),
    Scenario(
        name="cluster-pause-leader-impatient",
        metrics=_gap_metrics("SIGSTOP of the leader, a client that waits a second for an answer", 10_000),
        measure=_gap(produces_impatiently, leader_of, _pause),
        rounds_max=1,
    ),
    Scenario(
        name="cluster-restart-each",
        metrics=_gap_metrics("controlled restart of each node in turn", 500),
        measure=_gap(produces, leader_of, _restart_each),
        rounds_max=2,
    ),
)
