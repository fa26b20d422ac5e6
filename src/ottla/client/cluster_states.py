"""What `Admin` tells of a cluster's machinery: brokers with their racks, the quorum, disks, partitions that move."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from ottla.base.types import NodeId, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerState:
    """A registered broker. A fenced one is known and serves nobody: it is down, or not ready yet."""

    id: NodeId
    host: str
    port: int
    rack: str | None
    is_fenced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumReplica:
    """`lag` counts the records of the metadata log that the leader has and this one does not have yet.

    `caught_up_ms_ago` is how long ago it last had all that the leader had then; None where the leader has not heard of it.
    """

    id: NodeId
    directory_id: UUID
    log_end_offset: int
    lag: int
    caught_up_ms_ago: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    """`leader` is the active controller; None during an election. Observers follow the metadata log without a vote."""

    leader: NodeId | None
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMembers:
    cluster_id: str
    brokers: tuple[BrokerState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirectory:
    """`error` is Kafka's name for what is wrong with it. Bytes are None where an old broker does not tell them."""

    path: str
    error: str | None
    total_bytes: int | None
    usable_bytes: int | None
    sizes: Mapping[TopicPartition, int]

    @property
    def used_share(self) -> float | None:
        if not self.total_bytes or self.usable_bytes is None:
            return None
        return 1 - self.usable_bytes / self.total_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A partition on the move. `replicas` has the new and the old ones until it is done."""

    replicas: tuple[NodeId, ...]
    adding: tuple[NodeId, ...]
    removing: tuple[NodeId, ...]

    @property
    def target(self) -> tuple[NodeId, ...]:
        return tuple(replica for replica in self.replicas if replica not in self.removing)
