"""One classic group: its members, its generation, what it has committed.

Two kinds of state. What the log holds (`GroupMetadataValue`: a generation with its members and assignments; offsets)
changes in `replay` alone and survives us. What a rebalance gathers (who joined, who waits, whose session runs) is changed
by requests as they come and is lost with the coordinator: clients then find out by an error and join again. Nothing is
answered from the second kind that must outlive us.

Memory: a broker may hold tens of thousands of these, nearly all of them idle: slots, and no empty containers.
"""

from enum import Enum
from sys import intern
from typing import Final

from ottla.base.errors import ApiError, ErrorCode, ProtocolError, invariant
from ottla.base.types import NO_TIMESTAMP, ProducerId, TimestampMs
from ottla.coordinator.groups.deadlines import Timed
from ottla.coordinator.groups.member import Member, PendingMember, Protocols
from ottla.coordinator.records import CommittedOffset
from ottla.wire import api
from ottla.wire.codec import codec_for

CONSUMER_PROTOCOL: Final = "consumer"
NO_GENERATION: Final = -1
UNKNOWN_MEMBER: Final = ""
_VERSION_BYTES: Final = 2


class GroupState(Enum):
    """By the names that clients and tools show. A group that does not exist is described as Dead."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class RebalanceTimer(Timed):
    """`due_at` ends the phase that the group is in."""

    __slots__ = ("extension_left_ms", "group", "is_extended")

    def __init__(self, group: "Group") -> None:
        super().__init__()
        self.group = group
        self.extension_left_ms = 0
        """How much longer the first rebalance of a new group may wait for members."""
        self.is_extended = False
        """Somebody joined since the last look."""


class Group:
    __slots__ = (
        "awaiting_join_count",
        "generation",
        "group_id",
        "is_initial_rebalance",
        "is_recorded",
        "leader_id",
        "members",
        "offsets",
        "open_producers",
        "pending_members",
        "pending_syncs",
        "protocol_name",
        "protocol_type",
        "state",
        "state_timestamp_ms",
        "static_members",
        "supporters",
        "timer",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_timestamp_ms: TimestampMs = NO_TIMESTAMP
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, Member] | None = None
        self.pending_members: dict[str, PendingMember] | None = None
        self.pending_syncs: set[str] | None = None
        self.supporters: dict[str, int] | None = None
        """How many members offer a protocol."""
        self.awaiting_join_count = 0
        self.is_initial_rebalance = False
        self.timer: RebalanceTimer | None = None
        self.is_recorded = False
        """The log holds a `GroupMetadataValue` of it."""
        self.offsets: dict[str, dict[int, CommittedOffset]] | None = None
        self.open_producers: dict[ProducerId, None] | None = None
        """Whose transactions have committed offsets here that are not decided yet."""

    # -- members -----------------------------------------------------------------------------------------------------

    def add(self, member: Member) -> None:
        invariant(member.member_id not in self.members, "a member is added once", member=member.member_id)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            if self.static_members is None:
                self.static_members = {}
            invariant(member.instance_id not in self.static_members, "one member per instance", id=member.instance_id)
            self.static_members[member.instance_id] = member
        self._count_support(member.protocols, 1)
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member: Member) -> None:
        """The caller has answered its requests."""
        invariant(member.join is None and member.sync is None, "nobody is removed while waiting", id=member.member_id)
        del self.members[member.member_id]
        if member.instance_id is not None and self.static_members is not None:
            self.static_members.pop(member.instance_id, None)
        if self.pending_syncs is not None:
            self.pending_syncs.discard(member.member_id)
        self._count_support(member.protocols, -1)
        if not self.members:
            self.supporters = None
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)

    def change_protocols(self, member: Member, protocols: Protocols) -> None:
        self._count_support(member.protocols, -1)
        member.protocols = protocols
        self._count_support(protocols, 1)

    def _count_support(self, protocols: Protocols, change: int) -> None:
        supporters = self.supporters
        if supporters is None:
            supporters = self.supporters = {}
        for name, _ in protocols:
            count = supporters.get(name, 0) + change
            if count:
                supporters[name] = count
            else:
                del supporters[name]

    def static_member(self, instance_id: str | None) -> Member | None:
        if instance_id is None or self.static_members is None:
            return None
        return self.static_members.get(instance_id)

    def require_member(self, member_id: str, instance_id: str | None) -> Member:
        """`ApiError` for who does not belong here, or whose instance id is somebody else's by now."""
        if instance_id is not None:
            static = self.static_member(instance_id)
            if static is None:
                raise self._unknown(member_id)
            if static.member_id != member_id:
                raise ApiError(ErrorCode.FENCED_INSTANCE_ID, f"{instance_id} is {static.member_id} now")
        member = self.members.get(member_id)
        if member is None:
            raise self._unknown(member_id)
        return member

    def _unknown(self, member_id: str) -> ApiError:
        return ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id!r} is no member of {self.group_id}")

    def without_members(self) -> "Group":
        """What is left when all that was recorded of members is deleted."""
        left = Group(self.group_id)
        left.offsets, left.open_producers = self.offsets, self.open_producers
        return left

    @property
    def is_all_joined(self) -> bool:
        return self.awaiting_join_count == len(self.members) and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # -- protocols ---------------------------------------------------------------------------------------------------

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether somebody who offers these can join: an assignor must be left that everybody knows."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        supporters, count = self.supporters or {}, len(self.members)
        return protocol_type == self.protocol_type and any(supporters.get(name, 0) == count for name, _ in protocols)

    def elect_protocol(self) -> str:
        """Each member votes for the first of its protocols that everybody supports."""
        count = len(self.members)
        candidates = {name for name, supporters in (self.supporters or {}).items() if supporters == count}
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = next((name for name, _ in member.protocols if name in candidates), None)
            if choice is not None:
                votes[choice] = votes.get(choice, 0) + 1
        invariant(votes, "members share a protocol", group=self.group_id)
        return max(votes, key=votes.__getitem__)

    def is_subscribed_to(self, topic: str) -> bool:
        """As far as it can be told: of a consumer group whose subscriptions cannot be read, every topic."""
        topics = self._subscribed_topics()
        return self.protocol_type == CONSUMER_PROTOCOL if topics is None else topic in topics

    def _subscribed_topics(self) -> set[str] | None:
        if self.protocol_type != CONSUMER_PROTOCOL:
            return None
        topics: set[str] = set()
        if self.members and self.protocol_name is None:
            return None
        for member in self.members.values():
            metadata = memoryview(member.metadata_for(self.protocol_name))
            try:
                # Every version begins with the fields of version 0.
                subscription, _ = codec_for(api.ConsumerProtocolSubscription, 0).decode(metadata, _VERSION_BYTES)
            except ProtocolError:
                return None
            topics.update(subscription.topics)
        return topics

    # -- offsets -----------------------------------------------------------------------------------------------------

    def offset(self, topic: str, partition: int) -> CommittedOffset | None:
        partitions = None if self.offsets is None else self.offsets.get(topic)
        return None if partitions is None else partitions.get(partition)

    def set_offset(self, topic: str, partition: int, committed: CommittedOffset) -> None:
        offsets = self.offsets
        if offsets is None:
            offsets = self.offsets = {}
        partitions = offsets.get(topic)
        if partitions is None:
            partitions = offsets[intern(topic)] = {}  # Thousands of groups name the same topics.
        partitions[partition] = committed

    def drop_offset(self, topic: str, partition: int) -> None:
        partitions = None if self.offsets is None else self.offsets.get(topic)
        if self.offsets is not None and partitions is not None and partitions.pop(partition, None) is not None:
            if not partitions:
                del self.offsets[topic]
            if not self.offsets:
                self.offsets = None

    @property
    def is_bare(self) -> bool:
        """Nothing is known of it that anybody could ask for."""
        return not (self.members or self.pending_members or self.offsets or self.open_producers or self.is_recorded)
