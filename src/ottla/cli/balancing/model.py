"""What a plan is made from: brokers with racks, partitions with replicas, bytes on disk and bytes written a second."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from ottla.base.types import NodeId, TopicPartition

Replicas: TypeAlias = tuple[NodeId, ...]
Assignment: TypeAlias = Mapping[TopicPartition, Replicas]  # The first of each is preferred to lead.


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    id: NodeId
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLoad:
    """What is known of a partition."""

    partition: TopicPartition
    replicas: Replicas
    leader: NodeId | None
    in_sync: frozenset[NodeId]
    size_bytes: int = 0
    bytes_per_second: float = 0.0
    is_moving: bool = False

    @property
    def is_settled(self) -> bool:
        """It has a leader, all replicas are in sync, and it is not being moved. Others are left alone."""
        return self.leader is not None and not self.is_moving and self.in_sync.issuperset(self.replicas)

    @property
    def led_first(self) -> Replicas:
        """The replicas with the present leader in front: how the cluster behaves, whoever is preferred."""
        if self.leader is None or self.leader not in self.replicas:
            return self.replicas
        return (self.leader, *(replica for replica in self.replicas if replica != self.leader))


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """`brokers` may be given replicas; a replica may lie on another one, which leaves or is down."""

    brokers: tuple[Broker, ...]
    partitions: tuple[PartitionLoad, ...]

    @property
    def assignment(self) -> dict[TopicPartition, Replicas]:
        return {each.partition: each.replicas for each in self.partitions}


class Load(NamedTuple):
    """Of one broker. A replica is written to at its partition's rate, and its leader sends that to each follower as well.

    What consumers read is not in it: a broker does not tell.
    """

    replicas: float = 0.0
    leaders: float = 0.0
    disk_bytes: float = 0.0
    bytes_per_second: float = 0.0

    def plus(self, other: "Load", times: int = 1) -> "Load":
        return Load(
            self.replicas + times * other.replicas,
            self.leaders + times * other.leaders,
            self.disk_bytes + times * other.disk_bytes,
            self.bytes_per_second + times * other.bytes_per_second,
        )


def load_of(partition: PartitionLoad, replicas: Replicas, replica: NodeId) -> Load:
    """What one replica puts on its broker, with the first of `replicas` leading."""
    leads = replica == replicas[0]
    copies_sent = len(replicas) - 1 if leads else 0
    return Load(1, int(leads), partition.size_bytes, partition.bytes_per_second * (1 + copies_sent))
