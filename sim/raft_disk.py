"""The disk of a node of the simulated quorum: a log that forgets what was not synced, snapshots, `quorum-state`.

Changes of the log are a queue behind the durable content; an fsync takes those that were there when it began, a crash
keeps some first part of the rest. Snapshots and `quorum-state` are replaced atomically, as the real ones are.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from ottla.base.types import Offset
from ottla.raft.log_view import LogBatch, LogView
from ottla.raft.messages import EpochEnd, SnapshotId
from ottla.raft.quorum_state import QuorumState, decode_quorum_state, encode_quorum_state
from ottla.raft.voters import ReplicaKey, VoterSet


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFile:
    """What a snapshot says: the voters, and all batches before its end, one by one for the checkers."""

    snapshot_id: SnapshotId
    voters: VoterSet
    applied: tuple[LogBatch, ...]

    def data(self) -> bytes:
        return f"{self.snapshot_id}{len(self.applied)}".encode()


class LogContent:
    """The batches of a log, and the snapshot that stands for what was before them."""

    def __init__(self, first_voters: VoterSet) -> None:
        self.start_snapshot: SnapshotId | None = None
        self.start_voters = first_voters
        self.batches: list[LogBatch] = []

    @property
    def start_offset(self) -> Offset:
        return 0 if self.start_snapshot is None else self.start_snapshot.end_offset

    @property
    def end_offset(self) -> Offset:
        return self.batches[-1].end_offset if self.batches else self.start_offset

    @property
    def end(self) -> EpochEnd:
        if self.batches:
            return EpochEnd(self.batches[-1].epoch, self.batches[-1].end_offset)
        return EpochEnd(0, 0) if self.start_snapshot is None else EpochEnd(self.start_snapshot.epoch, self.start_offset)

    def append(self, batches: tuple[LogBatch, ...]) -> None:
        assert not batches or batches[0].base_offset == self.end_offset, "a hole in the log"
        self.batches += batches

    def truncate(self, to_offset: Offset) -> list[LogBatch]:
        removed = [batch for batch in self.batches if batch.end_offset > to_offset]
        assert all(batch.base_offset >= to_offset for batch in removed), "a batch cut in two"
        del self.batches[len(self.batches) - len(removed) :]
        return removed

    def drop_before(self, snapshot_id: SnapshotId, voters: VoterSet) -> None:
        self.batches = [batch for batch in self.batches if batch.base_offset >= snapshot_id.end_offset]
        self.start_snapshot, self.start_voters = snapshot_id, voters

    def restart_at(self, snapshot_id: SnapshotId, voters: VoterSet) -> None:
        self.batches = []
        self.start_snapshot, self.start_voters = snapshot_id, voters

    def find(self, base_offset: Offset) -> LogBatch | None:
        found = next(iter(self.batches_from(base_offset)), None)
        return found if found is not None and found.base_offset == base_offset else None

    def holds(self, batch: LogBatch) -> bool:
        """In the log, or in the snapshot before it."""
        return self.start_offset > batch.base_offset or self.find(batch.base_offset) == batch

    def batches_from(self, offset: Offset) -> list[LogBatch]:
        return self.batches[bisect_left(self.batches, offset, key=lambda batch: batch.base_offset) :]

    @property
    def voter_sets(self) -> list[VoterSet]:
        return [self.start_voters, *(each.control for each in self.batches if isinstance(each.control, VoterSet))]

    @property
    def voters(self) -> VoterSet:
        sets = (batch.control for batch in reversed(self.batches) if isinstance(batch.control, VoterSet))
        return next(sets, self.start_voters)

    def view(self) -> LogView:
        view = LogView(self.start_voters)
        if self.start_snapshot is not None:
            view.restart_at(self.start_snapshot, self.start_voters)
        for batch in self.batches:
            view.append(batch)
        view.on_flushed(view.log_end_offset, view.truncation_count)
        return view


class RaftDisk:
    def __init__(self, key: ReplicaKey, first_voters: VoterSet) -> None:
        self.key = key
        self.written = LogContent(first_voters)
        self.durable = LogContent(first_voters)
        self.snapshots: dict[SnapshotId, SnapshotFile] = {}
        self._pending: deque[tuple[int, Callable[[LogContent], object]]] = deque()
        self._change_count = 0
        self._quorum_state = b""

    @property
    def newest_snapshot(self) -> SnapshotFile | None:
        return self.snapshots[max(self.snapshots)] if self.snapshots else None

    def persist(self, state: QuorumState) -> None:
        self._quorum_state = encode_quorum_state(state)

    def quorum_state(self) -> QuorumState:
        return decode_quorum_state(self._quorum_state) if self._quorum_state else QuorumState()

    def append(self, batches: tuple[LogBatch, ...]) -> None:
        self.written.append(batches)
        self._change(lambda content: content.append(batches))

    def truncate(self, to_offset: Offset) -> list[LogBatch]:
        removed = self.written.truncate(to_offset)
        self._change(lambda content: content.truncate(to_offset))
        return removed

    @property
    def is_synced(self) -> bool:
        return not self._pending

    def _change(self, change: Callable[[LogContent], object]) -> None:
        self._change_count += 1
        self._pending.append((self._change_count, change))

    def begin_sync(self) -> Callable[[], None]:
        """What is written now becomes durable when the returned function is called."""
        last_number = self._change_count

        def complete() -> None:
            while self._pending and self._pending[0][0] <= last_number:
                self._pending.popleft()[1](self.durable)

        return complete

    def take_snapshot(self, snapshot: SnapshotFile) -> None:
        self.snapshots[snapshot.snapshot_id] = snapshot

    def drop_before(self, snapshot: SnapshotFile) -> None:
        assert self.is_synced, "the log before a snapshot goes once it is durable"
        for content in (self.written, self.durable):
            content.drop_before(snapshot.snapshot_id, snapshot.voters)

    def install(self, snapshot: SnapshotFile) -> None:
        self.snapshots[snapshot.snapshot_id] = snapshot
        self._pending.clear()
        for content in (self.written, self.durable):
            content.restart_at(snapshot.snapshot_id, snapshot.voters)

    def crash(self, chance: Random) -> int:
        """Returns how many changes were lost."""
        kept_count = chance.randint(0, len(self._pending)) if chance.random() < 0.5 else 0
        lost_count = len(self._pending) - kept_count
        for _, change in list(self._pending)[:kept_count]:
            change(self.durable)
        self._pending.clear()
        newest = self.newest_snapshot
        if newest is not None and self.durable.end_offset < newest.snapshot_id.end_offset:
            self.durable.restart_at(newest.snapshot_id, newest.voters)
        self.written = LogContent(self.durable.start_voters)
        self.written.start_snapshot = self.durable.start_snapshot
        self.written.batches = list(self.durable.batches)
        return lost_count

    def view(self) -> LogView:
        view = self.written.view()
        newest = self.newest_snapshot
        if newest is not None:
            view.on_snapshot(newest.snapshot_id, view.log_start_offset)
        return view
