"""What `Admin` takes and returns: topics, partitions, configurations, brokers, offsets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple
from uuid import UUID

BROKER_DEFAULT: Final = -1  # Lets the broker's num.partitions and default.replication.factor decide.


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create, in the order of the Java class. `configs` by Kafka's names, values of any type."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    id: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionInfo:
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    name: str
    topic_id: UUID
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    cluster_id: str
    controller: int | None
    brokers: tuple[Broker, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """`source` is Kafka's name of where the value comes from, such as DEFAULT_CONFIG or DYNAMIC_TOPIC_CONFIG."""

    name: str
    value: str | None
    source: str
    is_default: bool
    is_read_only: bool
    is_sensitive: bool


class OffsetSpec(Enum):
    """Which offset `Admin.list_offsets` looks for; a number there is a timestamp in milliseconds."""

    EARLIEST = "earliest"
    LATEST = "latest"
    MAX_TIMESTAMP = "max_timestamp"


class ListedOffset(NamedTuple):
    """`offset` is -1 where no record matches."""

    offset: int
    timestamp: int
    leader_epoch: int


class KeysMoveWarning(UserWarning):
    """A topic has grown: keys go to other partitions from now on, and their order across the change is lost."""
