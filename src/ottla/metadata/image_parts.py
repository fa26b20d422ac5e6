"""The nouns of the cluster image: topics, partitions, brokers, controllers, configuration resources.

Values are immutable and replaced whole, so that copies of an image share them: the controller's image, the broker's
and one being written to a snapshot cost little more than one. 10,000 partitions are a few megabytes.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple
from uuid import UUID

from ottla.base.types import LeaderEpoch, NodeId, TopicId

UNASSIGNED_DIRECTORY: Final = UUID(int=1)


class ConfigResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """What a configuration belongs to. A broker resource with an empty name is the default of all brokers."""

    type: ConfigResourceType
    name: str


def without(replicas: tuple[NodeId, ...], left_out: Collection[NodeId]) -> tuple[NodeId, ...]:
    """`replicas` in their order, but for those left out."""
    return tuple(replica for replica in replicas if replica not in left_out) if left_out else replicas


class PartitionImage(NamedTuple):
    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    leader: NodeId
    leader_epoch: LeaderEpoch
    partition_epoch: int
    directories: tuple[UUID, ...]
    removing_replicas: tuple[NodeId, ...] = ()
    adding_replicas: tuple[NodeId, ...] = ()
    eligible_leader_replicas: tuple[NodeId, ...] = ()
    last_known_elr: tuple[NodeId, ...] = ()
    leader_recovery_state: int = 0

    @property
    def is_moving(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def is_settled(self) -> bool:
        """Led by its first replica, and not on the move: as nearly all partitions are at any time."""
        return self.replicas[:1] == (self.leader,) and not (self.adding_replicas or self.removing_replicas)

    def directory_of(self, broker_id: NodeId) -> UUID:
        """`UNASSIGNED_DIRECTORY` of one that has no replica."""
        if broker_id not in self.replicas:
            return UNASSIGNED_DIRECTORY
        return self.directories[self.replicas.index(broker_id)]

    @property
    def original_replicas(self) -> tuple[NodeId, ...]:
        """Those before a reassignment, to which a cancellation goes back."""
        return without(self.replicas, self.adding_replicas)

    @property
    def target_replicas(self) -> tuple[NodeId, ...]:
        """Those after a reassignment."""
        return without(self.replicas, self.removing_replicas)

    @property
    def replication_factor(self) -> int:
        """While replicas move, the smaller of before and after: nobody may wait for more than are there."""
        if not self.is_moving:
            return len(self.replicas)
        return min(len(self.original_replicas), len(self.target_replicas))


class PartitionRef(NamedTuple):
    """A partition with its topic and number: what a decision about it needs."""

    topic: "TopicImage"
    number: int
    partition: PartitionImage

    def __str__(self) -> str:
        return f"{self.topic.name}-{self.number}"


class TopicImage:
    """A topic and its partitions by number; the numbers are dense from 0 once a record batch is replayed."""

    __slots__ = ("id", "name", "partitions")

    def __init__(self, name: str, topic_id: TopicId) -> None:
        self.name = name
        self.id = topic_id
        self.partitions: dict[int, PartitionImage] = {}

    def copy(self) -> "TopicImage":
        twin = TopicImage(self.name, self.id)
        twin.partitions = self.partitions.copy()
        return twin

    @property
    def replication_factor(self) -> int:
        first = self.partitions.get(0)
        return first.replication_factor if first is not None else 0

    def __repr__(self) -> str:
        return f"TopicImage({self.name!r}, {self.id}, {len(self.partitions)} partitions)"


class Endpoint(NamedTuple):
    name: str
    host: str
    port: int
    security_protocol: int


class FeatureRange(NamedTuple):
    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerImage:
    id: NodeId
    epoch: int
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...]
    features: dict[str, FeatureRange]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_directories: tuple[UUID, ...]

    @property
    def is_active(self) -> bool:
        """It may lead and be in sync: neither fenced nor on its way out."""
        return not (self.fenced or self.in_controlled_shutdown)

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((endpoint for endpoint in self.endpoints if endpoint.name == listener), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerImage:
    id: NodeId
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...]
    features: dict[str, FeatureRange]
