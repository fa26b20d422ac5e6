"""What `Admin` tells of consumer groups."""

from dataclasses import dataclass

from ottla.base.types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """`state` in Kafka's words: Stable, Empty, PreparingRebalance, CompletingRebalance, Dead, Unknown.

    `is_simple`: it has offsets but never had members that joined.
    """

    group: str
    state: str
    type: str
    is_simple: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    group: str
    state: str
    type: str
    assignor: str
    coordinator: int | None
    members: tuple[GroupMember, ...]
