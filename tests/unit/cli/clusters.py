"""Clusters as the commands see them, written down in a line or two."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from ottla.base.types import TopicPartition
from ottla.cli.cluster_state import ClusterState
from ottla.client.cluster_states import BrokerState, QuorumReplica, QuorumState, Reassignment
from ottla.client.topics import PartitionInfo


def partition(
    index: int, replicas: Sequence[int], *, isr: Sequence[int] | None = None, leader: int | None = 0
) -> PartitionInfo:
    """Led by its first replica, all in sync, unless said otherwise."""
    return PartitionInfo(
        partition=index,
        leader=replicas[0] if leader == 0 else leader,
        replicas=tuple(replicas),
        in_sync_replicas=tuple(replicas if isr is None else isr),
    )


def voter(node: int, *, lag: int = 0, caught_up_ms_ago: int | None = 0) -> QuorumReplica:
    return QuorumReplica(
        id=node,
        directory_id=UUID(int=node),
        log_end_offset=100 - lag,
        lag=lag,
        caught_up_ms_ago=caught_up_ms_ago,
    )


def cluster(
    *partitions: PartitionInfo,
    fenced: Sequence[int] = (),
    racks: Sequence[str | None] = ("a", "b", "c"),
    voters: Sequence[QuorumReplica] | None = None,
    min_in_sync: int = 2,
    reassignments: Mapping[TopicPartition, Reassignment] | None = None,
) -> ClusterState:
    """Brokers 1, 2, … in these racks; all partitions are of the topic t."""
    ids = range(1, len(racks) + 1)
    return ClusterState(
        cluster_id="test",
        brokers=tuple(
            BrokerState(id=node, host=f"host{node}", port=9092, rack=rack, is_fenced=node in fenced)
            for node, rack in zip(ids, racks, strict=True)
        ),
        quorum=QuorumState(
            leader=1,
            leader_epoch=7,
            high_watermark=100,
            voters=tuple(map(voter, ids) if voters is None else voters),
            observers=(),
        ),
        partitions={TopicPartition("t", info.partition): info for info in partitions},
        min_in_sync={"t": min_in_sync},
        reassignments=reassignments or {},
    )
