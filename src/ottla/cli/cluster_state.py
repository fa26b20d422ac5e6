"""A cluster at one moment: its brokers, its quorum, and which partitions are in trouble.

Three kinds of trouble, each worse than the one before: *under-replicated* (a replica is behind; the next failure counts),
*below min ISR* (producers with acks=all are refused), *offline* (no leader: neither read nor written). A partition counts
in each kind that holds for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.base.types import NodeId, TopicPartition
from ottla.cli.output import counted
from ottla.client.admin import Admin
from ottla.client.cluster_states import BrokerState, QuorumReplica, QuorumState, Reassignment
from ottla.client.topics import PartitionInfo

MIN_IN_SYNC: Final = "min.insync.replicas"
VOTER_SILENCE_MS_MAX: Final = 2_000  # Voters ask the leader for more twice a second.


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    cluster_id: str
    brokers: tuple[BrokerState, ...]
    quorum: QuorumState
    partitions: Mapping[TopicPartition, PartitionInfo]
    min_in_sync: Mapping[str, int]
    reassignments: Mapping[TopicPartition, Reassignment]

    @property
    def topics(self) -> list[str]:
        return sorted({partition.topic for partition in self.partitions})

    @property
    def fenced(self) -> list[NodeId]:
        return [broker.id for broker in self.brokers if broker.is_fenced]

    @property
    def silent_voters(self) -> list[QuorumReplica]:
        """Those that do not follow the quorum's leader, but for brokers that are down: a controller alone is no broker."""
        return [
            voter
            for voter in self.quorum.voters
            if voter.id not in self.fenced
            and (voter.caught_up_ms_ago is None or voter.caught_up_ms_ago > VOTER_SILENCE_MS_MAX)
        ]

    @property
    def racks(self) -> list[str]:
        return sorted({broker.rack for broker in self.brokers if broker.rack is not None})

    @property
    def offline(self) -> list[TopicPartition]:
        return [where for where, info in self.partitions.items() if info.leader is None]

    @property
    def under_replicated(self) -> list[TopicPartition]:
        return [where for where, info in self.partitions.items() if len(info.in_sync_replicas) < self._wanted(where)]

    @property
    def below_min_in_sync(self) -> list[TopicPartition]:
        return [
            where
            for where, info in self.partitions.items()
            if len(info.in_sync_replicas) < min(self.min_in_sync.get(where.topic, 1), len(info.replicas))
        ]

    def _wanted(self, where: TopicPartition) -> int:
        """While a partition moves, its new replicas are not missing yet: they are on their way."""
        moving = self.reassignments.get(where)
        return len(self.partitions[where].replicas) - (len(moving.adding) if moving else 0)


def cluster_state(admin: Admin) -> ClusterState:
    members = admin.describe_members()
    partitions = admin.list_partitions()
    topics = sorted({partition.topic for partition in partitions})
    configs = admin.describe_topic_configs(topics, [MIN_IN_SYNC])
    return ClusterState(
        cluster_id=members.cluster_id,
        brokers=members.brokers,
        quorum=admin.describe_quorum(),
        partitions=partitions,
        min_in_sync={topic: int(values.get(MIN_IN_SYNC) or 1) for topic, values in configs.items()},
        reassignments=admin.list_reassignments(),
    )


def verdict(state: ClusterState) -> tuple[bool, str]:
    """Whether all is well, and the worst of it in a sentence."""
    troubles = [
        *_partition_troubles(state),
        *_broker_troubles(state),
    ]
    if troubles:
        return False, "; ".join(troubles)
    moving = f", {counted(len(state.reassignments), 'partition')} on the move" if state.reassignments else ""
    return True, f"all is well: every replica of every partition is in sync{moving}"


def _partition_troubles(state: ClusterState) -> Sequence[str]:
    told = []
    if state.offline:
        told.append(f"{counted(len(state.offline), 'partition')} offline, neither read nor written")
    refused = set(state.below_min_in_sync) - set(state.offline)
    if refused:
        told.append(f"{counted(len(refused), 'partition')} below min ISR, acks=all is refused")
    behind = set(state.under_replicated) - refused - set(state.offline)
    if behind:
        told.append(f"{counted(len(behind), 'partition')} under-replicated")
    return told


def _broker_troubles(state: ClusterState) -> Sequence[str]:
    told = []
    if state.quorum.leader is None:
        told.append("the quorum has no leader, nothing can be changed")
    if state.fenced:
        told.append(f"{'broker' if len(state.fenced) == 1 else 'brokers'} {listed(state.fenced)} down")
    if silent := [voter.id for voter in state.silent_voters]:
        told.append(f"{'voter' if len(silent) == 1 else 'voters'} {listed(silent)} silent")
    return told


def listed(items: Sequence[object], shown_max: int = 5) -> str:
    """The first few by name, the rest by number."""
    named = ", ".join(map(str, items[:shown_max]))
    return named if len(items) <= shown_max else f"{named} and {len(items) - shown_max:,} more"
