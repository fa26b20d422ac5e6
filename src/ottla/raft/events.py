"""What can happen to a node of the quorum. Time and chance come beside each event, as arguments of `step`."""

from collections.abc import Hashable
from dataclasses import dataclass

from ottla.base.types import LeaderEpoch, NodeId, Offset
from ottla.raft.log_view import LogBatch
from ottla.raft.messages import Reply, Request, SnapshotId
from ottla.raft.voters import VoterSet

Ticket = Hashable
"""Whatever lets the driver find who asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Time has passed; due at `RaftMachine.next_deadline_ms()`, harmless at any other moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestReceived:
    ticket: Ticket
    request: Request


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyReceived:
    """`batches` are the records that came with a `FetchReply`, checked and read by the driver."""

    peer_id: NodeId
    request_id: int
    reply: Reply
    batches: tuple[LogBatch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLost:
    """A connection to `peer_id` was refused or reset: its process is gone, most likely. A mere time-out is not this."""

    peer_id: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendAsked:
    """The leader's own state machine wants records in the log; `ApiError` if this node does not lead in `epoch`."""

    epoch: LeaderEpoch
    record_count: int
    data: bytes | memoryview


@dataclass(frozen=True, slots=True, kw_only=True)
class Flushed:
    """The answer to `effects.Flush`, with its numbers."""

    end_offset: Offset
    truncation_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotTaken:
    """A snapshot of this node's own state is on disk; records before `log_start_offset` are not needed any more."""

    snapshot_id: SnapshotId
    log_start_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotInstalled:
    """The answer to `effects.InstallSnapshot`: the log is empty behind the snapshot, which holds `voters`."""

    snapshot_id: SnapshotId
    voters: VoterSet


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRefused:
    """What was downloaded is no whole snapshot; the follower fetches as before."""

    snapshot_id: SnapshotId


@dataclass(frozen=True, slots=True, kw_only=True)
class ResignAsked:
    """The node is about to stop: a leader hands over instead of letting the others find out."""


Event = (
    Tick
    | RequestReceived
    | ReplyReceived
    | ConnectionLost
    | AppendAsked
    | Flushed
    | SnapshotTaken
    | SnapshotInstalled
    | SnapshotRefused
    | ResignAsked
)
