"""A driver of the quorum's machine without sockets or files: it carries effects out, for the simulator and for scenarios.

What leaves the node comes back from `perform` as messages; the caller decides what becomes of them. A peer is one run of a
process: after a crash the next one starts from the same disk.
"""

from dataclasses import dataclass, replace

from ottla.base.errors import ErrorCode
from ottla.base.types import NodeId, Offset
from ottla.raft.effects import (
    Answer,
    AnswerFetch,
    AnswerSnapshot,
    AppendBatches,
    Committed,
    Effect,
    Flush,
    InstallSnapshot,
    PersistQuorumState,
    RoleChanged,
    Send,
    TruncateLog,
    WriteSnapshotChunk,
)
from ottla.raft.log_view import LogBatch
from ottla.raft.machine import RaftMachine
from ottla.raft.messages import BeginEpoch, EndEpoch, FetchSnapshotReply, Reply, Request, SnapshotId
from ottla.raft.settings import RaftSettings
from ottla.raft.state import RoleName
from ottla.raft.voters import ReplicaKey
from sim.raft_disk import RaftDisk, SnapshotFile

SNAPSHOT_CHUNK_BYTES = 7  # A download takes several requests.
FETCH_BATCHES_MAX = 4  # So does catching up.


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOut:
    from_id: NodeId
    to_id: NodeId
    request_id: int
    request: Request


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyOut:
    ticket: object
    reply: Reply
    batches: tuple[LogBatch, ...] = ()


MessageOut = RequestOut | ReplyOut


class RaftPeer:
    def __init__(self, settings: RaftSettings, disk: RaftDisk, *, now_ms: int, chance: float) -> None:
        self.key: ReplicaKey = settings.me
        self.disk = disk
        self.machine = RaftMachine(settings, disk.quorum_state(), disk.view(), now_ms=now_ms, chance=chance)
        self.role: RoleName = self.machine.node.role.name
        newest = disk.newest_snapshot
        self.applied: list[LogBatch] = [] if newest is None else list(newest.applied)
        self.downloads: dict[SnapshotId, bytes] = {}
        self.armed_ms: int | None = None
        """When its next tick is due."""
        self._named_ids: set[NodeId] = set()

    @property
    def applied_end(self) -> Offset:
        return self.applied[-1].end_offset if self.applied else 0

    def knows(self, node_id: NodeId) -> bool:
        """Whether it has an address for this id: of a bootstrap server, of a voter, of one who was named as a leader."""
        return node_id < 0 or node_id in self._named_ids or node_id in self.machine.node.voters.node_ids

    def on_named(self, message: Request | Reply) -> None:
        """Leaders say where they are, and so does everyone who names one."""
        if isinstance(message, BeginEpoch | EndEpoch | Reply):
            self._named_ids.add(message.leader_id)

    def perform(self, effect: Effect) -> MessageOut | None:
        match effect:
            case Send():
                return RequestOut(
                    from_id=self.key.node_id, to_id=effect.to_id, request_id=effect.request_id, request=effect.request
                )
            case Answer():
                return ReplyOut(ticket=effect.ticket, reply=effect.reply)
            case AnswerFetch():
                return ReplyOut(ticket=effect.ticket, reply=effect.reply, batches=self._read(effect.from_offset))
            case AnswerSnapshot():
                return ReplyOut(ticket=effect.ticket, reply=self._read_snapshot(effect))
            case PersistQuorumState():
                self.disk.persist(effect.state)
            case AppendBatches():
                self.disk.append(effect.batches)
            case TruncateLog():
                self.disk.truncate(effect.to_offset)
            case WriteSnapshotChunk():
                written = self.downloads.get(effect.snapshot_id, b"") if effect.position else b""
                assert len(written) == effect.position, "a hole in a snapshot"
                self.downloads[effect.snapshot_id] = written + bytes(effect.data)
            case Committed():
                self._apply(effect.high_watermark)
            case RoleChanged():
                self.role = effect.role
            case Flush() | InstallSnapshot():
                pass  # Their time is the caller's.
        return None

    def _read(self, from_offset: Offset) -> tuple[LogBatch, ...]:
        return tuple(self.disk.written.batches_from(from_offset)[:FETCH_BATCHES_MAX])

    def _read_snapshot(self, effect: AnswerSnapshot) -> FetchSnapshotReply:
        snapshot = self.disk.snapshots.get(effect.request.snapshot_id)
        if snapshot is None:
            return replace(effect.reply, error=ErrorCode.SNAPSHOT_NOT_FOUND)
        data, position = snapshot.data(), effect.request.position
        chunk = data[position : position + SNAPSHOT_CHUNK_BYTES]
        return replace(effect.reply, size=len(data), position=position, data=chunk)

    def _apply(self, high_watermark: Offset) -> None:
        for batch in self.disk.written.batches_from(self.applied_end):
            if batch.base_offset < high_watermark:
                assert batch.base_offset == self.applied_end, "a committed batch is missing"
                self.applied.append(batch)

    def take_snapshot(self) -> SnapshotFile:
        """Of all that is applied; the caller tells the machine."""
        last = self.applied[-1]
        snapshot_id = SnapshotId(last.end_offset, last.epoch)
        voters = self.machine.node.log.voters.before(last.end_offset)
        snapshot = SnapshotFile(snapshot_id=snapshot_id, voters=voters, applied=tuple(self.applied))
        self.disk.take_snapshot(snapshot)
        return snapshot

    def install(self, snapshot: SnapshotFile) -> None:
        assert self.downloads.pop(snapshot.snapshot_id) == snapshot.data(), "a snapshot that is not the one sent"
        self.disk.install(snapshot)
        self.applied = list(snapshot.applied)
