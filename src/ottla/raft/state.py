"""The roles a node can have, what each remembers while it lasts, and the one table of how they follow each other.

Rules for editing the table:
- An epoch never goes down; a role that needs a new one says so here, not where it is entered.
- LEADER is entered from CANDIDATE alone, and never again in the same epoch: a leader that stops is RESIGNED, and a
  leader that starts again was one, too. So a record is named by its offset and epoch for ever.
- Only CANDIDATE raises the epoch to win it (NEXT). PROSPECTIVE asks first (KIP-996), so that a node which comes back
  from behind a partition does not depose a leader that all others hear.
- A vote is not a role: it is in `QuorumState`, outlives roles and restarts, and goes with its epoch. A node that voted
  and waits is UNATTACHED. Neither is being an observer: it follows from the voter set, which may change under any role.
- A new arrow comes with its reason behind it, a test in tests/unit/raft/test_state.py, and a scenario that takes it.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from ottla.base.types import LeaderEpoch, NodeId, Offset
from ottla.raft.events import Ticket
from ottla.raft.messages import NO_ANSWER, AddVoter, Fetch, FetchSnapshot, RemoveVoter, SnapshotId, UpdateVoter
from ottla.raft.voters import ReplicaKey


class RoleName(Enum):
    UNATTACHED = "unattached"
    FOLLOWER = "follower"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    RESIGNED = "resigned"


class EpochRule(Enum):
    SAME = "same"
    NEXT = "next"
    HIGHER = "higher"
    NOT_LOWER = "not lower"

    def allows(self, old: LeaderEpoch, new: LeaderEpoch) -> bool:
        match self:
            case EpochRule.SAME:
                return new == old
            case EpochRule.NEXT:
                return new == old + 1
            case EpochRule.HIGHER:
                return new > old
            case EpochRule.NOT_LOWER:
                return new >= old


TRANSITIONS: Final[dict[RoleName, dict[RoleName, EpochRule]]] = {
    RoleName.UNATTACHED: {
        RoleName.UNATTACHED: EpochRule.NOT_LOWER,  # A newer epoch was heard of, or a vote given in this one.
        RoleName.FOLLOWER: EpochRule.NOT_LOWER,  # The leader was found.
        RoleName.PROSPECTIVE: EpochRule.SAME,  # Nobody was elected in time.
    },
    RoleName.FOLLOWER: {
        RoleName.UNATTACHED: EpochRule.NOT_LOWER,  # In the same epoch: who cannot vote looks for a newer leader.
        RoleName.FOLLOWER: EpochRule.HIGHER,
        RoleName.PROSPECTIVE: EpochRule.SAME,  # The fetch time-out passed, or the leader's process is gone.
    },
    RoleName.PROSPECTIVE: {
        RoleName.UNATTACHED: EpochRule.NOT_LOWER,  # In the same epoch: it lost, or it gave its vote away.
        RoleName.FOLLOWER: EpochRule.NOT_LOWER,  # In the same epoch: it lost, and the leader it had may live.
        RoleName.CANDIDATE: EpochRule.NEXT,  # A majority would vote for it.
    },
    RoleName.CANDIDATE: {
        RoleName.UNATTACHED: EpochRule.HIGHER,
        RoleName.FOLLOWER: EpochRule.NOT_LOWER,  # In the same epoch: another one won.
        RoleName.PROSPECTIVE: EpochRule.SAME,  # Nobody won in time: ask again before taking another epoch.
        RoleName.LEADER: EpochRule.SAME,  # A majority voted for it.
    },
    RoleName.LEADER: {
        RoleName.UNATTACHED: EpochRule.HIGHER,
        RoleName.FOLLOWER: EpochRule.HIGHER,
        RoleName.RESIGNED: EpochRule.SAME,  # It stops, lost touch with the majority, or is no voter any more.
    },
    RoleName.RESIGNED: {
        RoleName.UNATTACHED: EpochRule.HIGHER,
        RoleName.FOLLOWER: EpochRule.HIGHER,
    },
}


@dataclass(slots=True, kw_only=True)
class Unattached:
    """Knows an epoch and follows nobody in it; asks around with fetches."""

    election_deadline_ms: int

    name = RoleName.UNATTACHED


@dataclass(slots=True, kw_only=True)
class Follower:
    leader_id: NodeId
    fetch_deadline_ms: int
    has_fetched: bool = False
    """Only a leader that has answered us is worth defending against a pre-vote."""
    is_leader_suspected: bool = False
    """Its connection was refused or reset, or it said that it resigns: counts as an expired fetch time-out."""
    is_remembered: bool = False
    """From before a restart of ours: it may have heard of us a moment ago, and counts on our patience (`lease`)."""
    answer_id: int = NO_ANSWER
    """Of the last answer it gave us."""
    download: "SnapshotDownload | None" = None

    name = RoleName.FOLLOWER


@dataclass(slots=True, kw_only=True)
class SnapshotDownload:
    snapshot_id: SnapshotId
    position: int = 0


@dataclass(slots=True, kw_only=True)
class Prospective:
    election_deadline_ms: int
    granted: set[NodeId]
    rejected: set[NodeId] = field(default_factory=set)

    name = RoleName.PROSPECTIVE


@dataclass(slots=True, kw_only=True)
class Candidate:
    election_deadline_ms: int
    granted: set[NodeId]
    rejected: set[NodeId] = field(default_factory=set)

    name = RoleName.CANDIDATE


@dataclass(slots=True, kw_only=True)
class Progress:
    """How far a replica is, by its own fetches in this epoch."""

    end_offset: Offset = -1
    last_fetch_ms: int
    last_caught_up_ms: int = -1
    answer_id: int = NO_ANSWER
    answered_ms: int = -1
    """When it was last answered; whether the answer arrived is known with the next request."""
    confirmed_ms: int = -1
    """When it was given the last answer that is known to have arrived."""
    piece: FetchSnapshot | None = None
    piece_ms: int = -1
    """The last piece of a snapshot that it asked for, and when."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedFetch:
    """A fetch that has all there is; answered when there is more, or at the deadline."""

    ticket: Ticket
    request: Fetch
    deadline_ms: int


@dataclass(slots=True, kw_only=True)
class VoterChange:
    """The one change of voters that is under way."""

    request: AddVoter | RemoveVoter | UpdateVoter
    ticket: Ticket | None
    """None once it is answered: the change goes on without an audience."""
    deadline_ms: int
    caught_up_offset: Offset
    """How far a new voter must be before it counts: else adding it could stop the commits."""
    offset: Offset | None = None
    """Where its record is, once it is in the log."""


@dataclass(slots=True, kw_only=True)
class Leader:
    elected_at_ms: int
    epoch_start_offset: Offset
    answer_count: int = 0
    progress: dict[ReplicaKey, Progress] = field(default_factory=dict)
    parked: list[ParkedFetch] = field(default_factory=list)
    change: VoterChange | None = None

    name = RoleName.LEADER


@dataclass(slots=True, kw_only=True)
class Resigned:
    election_deadline_ms: int
    preferred_candidates: tuple[ReplicaKey, ...] = ()
    untold: set[NodeId] = field(default_factory=set)
    """Voters that have not answered our EndEpoch."""

    name = RoleName.RESIGNED


Role = Unattached | Follower | Prospective | Candidate | Leader | Resigned
