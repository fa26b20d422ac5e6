"""Requests and replies between the nodes of a quorum, without Kafka's nesting of topics and partitions.

`wire_requests.py` and `wire_replies.py` map them to what travels. Every reply names the epoch and leader that its sender
knows: that is how fencing and discovery work. `end` fields are exclusive: the offset of the next record to be written.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.types import NO_NODE, LeaderEpoch, NodeId, Offset
from ottla.raft.voters import Endpoint, ReplicaKey, Voter

WATERMARK_UNKNOWN: Final = 2**63 - 1
"""A fetcher that does not say what it knows is not waited for with a newer watermark (KIP-1166)."""
NO_ANSWER: Final = 0


class EpochEnd(NamedTuple):
    """Ordered as Raft orders logs: by epoch, then by offset."""

    epoch: LeaderEpoch
    end_offset: Offset


class SnapshotId(NamedTuple):
    end_offset: Offset
    epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    epoch: LeaderEpoch
    candidate: ReplicaKey
    voter: ReplicaKey
    """Whose vote is asked for: a node with another directory must not answer in its place."""
    log_end: EpochEnd
    is_pre_vote: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginEpoch:
    epoch: LeaderEpoch
    leader_id: NodeId
    voter: ReplicaKey
    leader_endpoints: tuple[Endpoint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndEpoch:
    epoch: LeaderEpoch
    leader_id: NodeId
    preferred_candidates: tuple[ReplicaKey, ...]
    leader_endpoints: tuple[Endpoint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """Says: all before `fetch_offset` is on my disk, and the last record of it is of `last_fetched_epoch`."""

    epoch: LeaderEpoch
    replica: ReplicaKey
    fetch_offset: Offset
    last_fetched_epoch: LeaderEpoch
    high_watermark: Offset = WATERMARK_UNKNOWN
    max_wait_ms: int = 0
    answer_id: int = NO_ANSWER
    """Of the last answer that the fetcher had from this leader: only so it is known to have arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSnapshot:
    epoch: LeaderEpoch
    replica: ReplicaKey
    snapshot_id: SnapshotId
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AddVoter:
    voter: Voter
    timeout_ms: int
    ack_when_committed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveVoter:
    key: ReplicaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateVoter:
    epoch: LeaderEpoch
    voter: Voter


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What every reply of the quorum says."""

    error: ErrorCode = ErrorCode.NONE
    epoch: LeaderEpoch
    leader_id: NodeId = NO_NODE


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteReply(Reply):
    is_granted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginEpochReply(Reply):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class EndEpochReply(Reply):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchReply(Reply):
    """At most one of `diverging`, `snapshot_id` and records; the records travel beside it (`effects.AnswerFetch`)."""

    high_watermark: Offset = -1
    log_start_offset: Offset = -1
    answer_id: int = NO_ANSWER
    diverging: EpochEnd | None = None
    snapshot_id: SnapshotId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSnapshotReply(Reply):
    """`size`, `position` and `data` are the driver's: it has the file."""

    snapshot_id: SnapshotId
    size: int = 0
    position: int = 0
    data: bytes | memoryview = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterChangeReply(Reply):
    message: str | None = None


Request = Vote | BeginEpoch | EndEpoch | Fetch | FetchSnapshot | AddVoter | RemoveVoter | UpdateVoter
