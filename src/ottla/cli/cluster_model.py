"""The model that plans are made from: partitions from metadata, bytes from log directories, rates by looking twice.

A partition's size is that of its largest copy; its rate is how much that copy grew between two looks. Retention may
delete meanwhile, so a rate is at least what is told, and never below zero.
"""

import time
from collections.abc import Callable, Mapping

from ottla.base.types import NodeId, TopicPartition
from ottla.cli.balancing.model import Broker, Model, PartitionLoad
from ottla.cli.cluster_state import ClusterState
from ottla.client.admin import Admin
from ottla.client.cluster_states import LogDirectory


def cluster_model(
    state: ClusterState, sizes: Mapping[TopicPartition, int], rates: Mapping[TopicPartition, float]
) -> Model:
    """Of the brokers that run."""
    return Model(
        brokers=tuple(Broker(id=each.id, rack=each.rack) for each in state.brokers if not each.is_fenced),
        partitions=tuple(
            PartitionLoad(
                partition=where,
                replicas=info.replicas,
                leader=info.leader,
                in_sync=frozenset(info.in_sync_replicas),
                size_bytes=sizes.get(where, 0),
                bytes_per_second=rates.get(where, 0.0),
                is_moving=where in state.reassignments,
            )
            for where, info in state.partitions.items()
        ),
    )


def largest_copies(directories: Mapping[NodeId, list[LogDirectory]]) -> dict[TopicPartition, int]:
    sizes: dict[TopicPartition, int] = {}
    for node_directories in directories.values():
        for directory in node_directories:
            for where, size_bytes in directory.sizes.items():
                sizes[where] = max(sizes.get(where, 0), size_bytes)
    return sizes


def measured_sizes_and_rates(
    admin: Admin, sample_s: float, *, sleep: Callable[[float], None] = time.sleep
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, float]]:
    """Bytes on disk, and bytes a second over `sample_s`; no rates where that is 0."""
    before, started = largest_copies(admin.describe_log_directories()), time.monotonic()
    if not sample_s:
        return before, {}
    sleep(sample_s)
    after = largest_copies(admin.describe_log_directories())
    return after, growth_rates(before, after, time.monotonic() - started)


def growth_rates(
    before: Mapping[TopicPartition, int], after: Mapping[TopicPartition, int], seconds: float
) -> dict[TopicPartition, float]:
    return {
        where: max(0, size_bytes - before[where]) / seconds for where, size_bytes in after.items() if where in before
    }
