"""Who votes: replicas by node and directory, sets of them, and the sets that the log holds.

A voter is a node with one particular directory: after its disk was lost a node comes back with another directory id, and
must not vote with a memory it does not have (KIP-853). A set takes effect the moment its record is in the log, committed
or not, and goes when that record is truncated; hence a history by offset.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from ottla.base.errors import invariant
from ottla.base.types import NodeId, Offset

NOT_IN_LOG: Final = -1
"""The offset of a set that comes from the node's format or configuration: older than any record."""


class ReplicaKey(NamedTuple):
    node_id: NodeId
    directory_id: UUID


class Endpoint(NamedTuple):
    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    key: ReplicaKey
    endpoints: tuple[Endpoint, ...] = ()


@dataclass(frozen=True, slots=True)
class VoterSet:
    """Voters in the order of their ids: one per node."""

    voters: tuple[Voter, ...] = ()

    def __post_init__(self) -> None:
        ids = self.node_ids
        invariant(list(ids) == sorted(set(ids)), "one voter per node, in order", ids=ids)

    def __iter__(self) -> Iterator[Voter]:
        return iter(self.voters)

    def __len__(self) -> int:
        return len(self.voters)

    @property
    def node_ids(self) -> tuple[NodeId, ...]:
        return tuple(voter.key.node_id for voter in self.voters)

    @property
    def majority_count(self) -> int:
        return len(self.voters) // 2 + 1

    def holds(self, key: ReplicaKey) -> bool:
        return any(voter.key == key for voter in self.voters)

    def with_voter(self, voter: Voter) -> "VoterSet":
        """`voter` added, or in the place of the one of the same node."""
        others = [other for other in self.voters if other.key.node_id != voter.key.node_id]
        return VoterSet(tuple(sorted([*others, voter], key=lambda each: each.key.node_id)))

    def without(self, key: ReplicaKey) -> "VoterSet":
        return VoterSet(tuple(voter for voter in self.voters if voter.key != key))


class VoterHistory:
    """The sets in the log by the offset of their record; the last one holds."""

    def __init__(self, first: VoterSet, offset: Offset = NOT_IN_LOG) -> None:
        self._sets: list[tuple[Offset, VoterSet]] = [(offset, first)]

    @property
    def latest(self) -> VoterSet:
        return self._sets[-1][1]

    @property
    def latest_offset(self) -> Offset:
        return self._sets[-1][0]

    def before(self, offset: Offset) -> VoterSet:
        """The set that held for the log up to `offset`: what a snapshot with that end must contain."""
        return next((voters for at, voters in reversed(self._sets) if at < offset), self._sets[0][1])

    def may_hold(self, key: ReplicaKey, high_watermark: Offset) -> bool:
        """Whether `key` is in the last set known to be committed, or in one that came after it."""
        return any(
            voters.holds(key)
            for (_, voters), following in zip(self._sets, [*self._sets[1:], None], strict=True)
            if following is None or following[0] >= high_watermark
        )

    def append(self, offset: Offset, voters: VoterSet) -> None:
        invariant(offset > self.latest_offset, "sets come in log order", offset=offset, latest=self.latest_offset)
        self._sets.append((offset, voters))

    def truncate(self, to_offset: Offset) -> None:
        """Sets whose record is cut off never were."""
        while len(self._sets) > 1 and self.latest_offset >= to_offset:
            self._sets.pop()

    def drop_before(self, log_start_offset: Offset) -> None:
        """Forgets all but the last set of a prefix that is in a snapshot now."""
        while len(self._sets) > 1 and self._sets[1][0] < log_start_offset:
            self._sets.pop(0)
