"""What consensus has to know of the log: its ends, the epochs' starts, the voter sets; never the records.

It runs in step with the effects: what the machine orders to append or truncate is here at once, on the driver's disk a
moment later, in the same order. Only `durable_end_offset` waits for the disk, and it alone counts towards a commit.

An fsync that was under way while the log was truncated says nothing about what was appended afterwards in the same
place: `truncation_count` tells such an answer apart.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from ottla.base.errors import invariant
from ottla.base.types import LeaderEpoch, Offset
from ottla.raft.messages import EpochEnd, SnapshotId
from ottla.raft.voters import VoterHistory, VoterSet


class EpochStart(NamedTuple):
    epoch: LeaderEpoch
    start_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChange:
    """The record with which a leader begins its epoch; committing it commits all before it."""

    leader_id: int
    voters: VoterSet
    granting_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KRaftVersion:
    level: int


Control = LeaderChange | KRaftVersion | VoterSet


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBatch:
    base_offset: Offset
    record_count: int
    epoch: LeaderEpoch
    control: Control | None = None
    """What a control batch means, as far as it matters here; None for any other batch."""
    data: bytes | memoryview = b""
    """The batch as it is in the log; empty if this leader just made it up, then the driver encodes `control`."""

    @property
    def end_offset(self) -> Offset:
        return self.base_offset + self.record_count


class LogView:
    def __init__(self, voters: VoterSet) -> None:
        """An empty log; `voters` is what the format of the node says."""
        self.log_start_offset: Offset = 0
        self.log_end_offset: Offset = 0
        self.durable_end_offset: Offset = 0
        self.snapshot_id: SnapshotId | None = None
        self.voters = VoterHistory(voters)
        self.truncation_count = 0
        self._epochs: list[EpochStart] = []

    # ---- asking ----

    @property
    def last_epoch(self) -> LeaderEpoch:
        return self._epochs[-1].epoch if self._epochs else 0

    @property
    def first_epoch(self) -> LeaderEpoch:
        """The oldest epoch this log can still speak about."""
        return self._epochs[0].epoch if self._epochs else 0

    @property
    def is_durable(self) -> bool:
        return self.durable_end_offset == self.log_end_offset

    @property
    def durable_end(self) -> EpochEnd:
        """The end that survives a crash, and the epoch of the record before it."""
        return EpochEnd(self.epoch_before(self.durable_end_offset), self.durable_end_offset)

    def epoch_before(self, offset: Offset) -> LeaderEpoch:
        return next((start.epoch for start in reversed(self._epochs) if start.start_offset < offset), 0)

    def end_of_epoch(self, epoch: LeaderEpoch) -> EpochEnd:
        """The largest epoch of this log that is not above `epoch`, and where it ends."""
        end_offset = self.log_end_offset
        for start in reversed(self._epochs):
            if start.epoch <= epoch:
                return EpochEnd(start.epoch, end_offset)
            end_offset = start.start_offset
        return EpochEnd(0, self.log_start_offset)

    def is_covered_by(self, other: EpochEnd) -> bool:
        """Whether a log that ends in `other` is at least as up to date as this one (Raft §5.4.1)."""
        return other >= EpochEnd(self.last_epoch, self.log_end_offset)

    # ---- changing ----

    def append(self, batch: LogBatch) -> None:
        invariant(batch.base_offset == self.log_end_offset, "batches follow each other",
                  base_offset=batch.base_offset, log_end=self.log_end_offset)  # fmt: skip
        invariant(batch.epoch >= self.last_epoch, "epochs only grow along the log",
                  epoch=batch.epoch, last=self.last_epoch)  # fmt: skip
        if batch.epoch > self.last_epoch:
            self._epochs.append(EpochStart(batch.epoch, batch.base_offset))
        if isinstance(batch.control, VoterSet):
            self.voters.append(batch.base_offset, batch.control)
        self.log_end_offset = batch.end_offset

    def truncate(self, to_offset: Offset) -> None:
        invariant(self.log_start_offset <= to_offset <= self.log_end_offset, "a truncation stays inside the log",
                  to=to_offset, start=self.log_start_offset, end=self.log_end_offset)  # fmt: skip
        self.log_end_offset = to_offset
        self.durable_end_offset = min(self.durable_end_offset, to_offset)
        self.voters.truncate(to_offset)
        self.truncation_count += 1
        while self._epochs and self._epochs[-1].start_offset >= to_offset:
            self._epochs.pop()

    def on_flushed(self, end_offset: Offset, truncation_count: int) -> None:
        if truncation_count != self.truncation_count:
            return
        invariant(end_offset <= self.log_end_offset, "what is durable was appended", end_offset=end_offset)
        self.durable_end_offset = max(self.durable_end_offset, end_offset)

    def on_snapshot(self, snapshot_id: SnapshotId, log_start_offset: Offset) -> None:
        """A snapshot of our own was written; the log before `log_start_offset` is gone or will be."""
        invariant(log_start_offset <= snapshot_id.end_offset, "the log goes on where a snapshot ends",
                  log_start=log_start_offset, snapshot_end=snapshot_id.end_offset)  # fmt: skip
        self.snapshot_id = max(snapshot_id, self.snapshot_id or snapshot_id)
        self.log_start_offset = max(self.log_start_offset, log_start_offset)
        self.voters.drop_before(self.log_start_offset)
        while len(self._epochs) > 1 and self._epochs[1].start_offset < self.log_start_offset:
            self._epochs.pop(0)

    def restart_at(self, snapshot_id: SnapshotId, voters: VoterSet) -> None:
        """Another's snapshot stands for all that was here; the log is empty behind it."""
        end_offset = snapshot_id.end_offset
        self.log_start_offset = self.log_end_offset = self.durable_end_offset = end_offset
        self.snapshot_id = snapshot_id
        self.voters = VoterHistory(voters, end_offset - 1)
        self.truncation_count += 1
        self._epochs = [EpochStart(snapshot_id.epoch, end_offset - 1)]

    def reach_back(self, log_start_offset: Offset, epochs: Iterable[EpochStart]) -> None:
        """At start: the log still holds what is before its newest snapshot, with these epochs."""
        invariant(log_start_offset <= self.log_start_offset, "a log reaches back to an older offset",
                  to=log_start_offset, start=self.log_start_offset)  # fmt: skip
        older = [start for start in epochs if start.start_offset < self.log_end_offset]
        if older:
            self._epochs = older
        self.log_start_offset = log_start_offset
