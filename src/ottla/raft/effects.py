"""What a step orders, and what the driver promises.

1. Effects are carried out in their order, those of one step before those of the next.
2. Nothing behind a `PersistQuorumState` happens before it is on the disk: a vote that left and is forgotten elects two
   leaders. (Roles that a step only passes through are told, and not persisted.)
3. `AppendBatches` and `TruncateLog` are written at once and need not be durable; `Flush` asks for that, is answered by
   `Flushed`, and may be answered late and once for many.
4. `AnswerFetch` reads the log between this effect and the next: after a truncation the bytes would be another leader's.
5. A failed write or fsync stops the node. What is on its disk is unknown, and unknown never becomes success.
6. Replies are matched to requests by id and die with the process that asked, as connections do.
"""

from dataclasses import dataclass

from ottla.base.types import LeaderEpoch, NodeId, Offset
from ottla.raft.events import Ticket
from ottla.raft.log_view import LogBatch
from ottla.raft.messages import FetchReply, FetchSnapshot, FetchSnapshotReply, Reply, Request, SnapshotId
from ottla.raft.quorum_state import QuorumState
from ottla.raft.state import RoleName


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    to_id: NodeId
    request_id: int
    request: Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    ticket: Ticket
    reply: Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFetch:
    """The reply with the records from `from_offset` up to `end_offset`, as many as fit; a reply always gets one batch."""

    ticket: Ticket
    reply: FetchReply
    from_offset: Offset
    end_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSnapshot:
    """The reply with bytes of the snapshot file; SNAPSHOT_NOT_FOUND or POSITION_OUT_OF_RANGE where there are none."""

    ticket: Ticket
    reply: FetchSnapshotReply
    request: FetchSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistQuorumState:
    state: QuorumState


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendBatches:
    batches: tuple[LogBatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateLog:
    to_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Flush:
    end_offset: Offset
    truncation_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """All before `high_watermark` is committed; it never goes back while the process lives."""

    high_watermark: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleChanged:
    """A new leader must apply its log up to its end before it decides anything."""

    role: RoleName
    epoch: LeaderEpoch
    leader_id: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSnapshotChunk:
    """Position 0 begins the file anew."""

    snapshot_id: SnapshotId
    position: int
    data: bytes | memoryview


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallSnapshot:
    """The file is whole: check it, make it durable, load it, empty the log behind it, then say `SnapshotInstalled`."""

    snapshot_id: SnapshotId


Effect = (
    Send
    | Answer
    | AnswerFetch
    | AnswerSnapshot
    | PersistQuorumState
    | AppendBatches
    | TruncateLog
    | Flush
    | Committed
    | RoleChanged
    | WriteSnapshotChunk
    | InstallSnapshot
)
