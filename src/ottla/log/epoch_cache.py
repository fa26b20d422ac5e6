"""Which leader wrote which part of the log: for every leader epoch its first offset (KIP-101, KIP-279).

Epochs and start offsets both grow. Replicas find where they diverge by it; nothing else ever decides a truncation. The
file `leader-epoch-checkpoint` is written with the next flush or close: what it lacks after a crash lies beyond the
recovery point, and recovery reads it back from the batches.
"""

from collections.abc import Iterable
from typing import NamedTuple

from ottla.base.types import NO_EPOCH, NO_OFFSET, LeaderEpoch, Offset


class EpochEnd(NamedTuple):
    """Up to where (exclusive) an epoch reaches; (-1, -1) when the log knows nothing of it."""

    epoch: LeaderEpoch
    end_offset: Offset


UNKNOWN_EPOCH_END = EpochEnd(NO_EPOCH, NO_OFFSET)


class EpochCache:
    __slots__ = ("_entries", "_saved_entries", "latest_epoch")

    def __init__(self, entries: Iterable[tuple[LeaderEpoch, Offset]] = ()) -> None:
        """With the entries of the checkpoint file."""
        self._entries = list(entries)
        self._saved_entries: list[tuple[LeaderEpoch, Offset]] | None = self._entries
        self.latest_epoch: LeaderEpoch = NO_EPOCH
        self._replace(self._entries)

    def entries(self) -> list[tuple[LeaderEpoch, Offset]]:
        return list(self._entries)

    def take_unsaved(self, log_end_offset: Offset) -> list[tuple[LeaderEpoch, Offset]] | None:
        """What the file should say, if it does not say it already; the caller writes it.

        An epoch without any record is left out: it decides nothing, and becoming leader of ten thousand partitions
        need not touch ten thousand files.
        """
        entries = [entry for entry in self._entries if entry[1] < log_end_offset]
        if entries == self._saved_entries:
            return None
        self._saved_entries = entries
        return entries

    def not_saved(self) -> None:
        """What `take_unsaved` gave out could not be written."""
        self._saved_entries = None

    def assign(self, epoch: LeaderEpoch, start_offset: Offset) -> bool:
        """The leader of `epoch` writes from `start_offset` on. Nothing changes for an epoch already known."""
        if epoch < 0 or epoch == self.latest_epoch:
            return False
        # Entries that the new one contradicts were never written to: an epoch or an offset at or above the new one.
        older = [entry for entry in self._entries if entry[0] < epoch and entry[1] < start_offset]
        self._replace([*older, (epoch, start_offset)])
        return True

    def epoch_of(self, offset: Offset) -> LeaderEpoch:
        """The epoch under which `offset` was written."""
        for epoch, start_offset in reversed(self._entries):
            if start_offset <= offset:
                return epoch
        return NO_EPOCH

    def end_of(self, epoch: LeaderEpoch, log_end_offset: Offset) -> EpochEnd:
        """The largest known epoch <= `epoch` and where it ends: the answer of OffsetForLeaderEpoch."""
        if epoch == NO_EPOCH or epoch > self.latest_epoch:
            return UNKNOWN_EPOCH_END
        if epoch == self.latest_epoch:
            return EpochEnd(epoch, log_end_offset)
        floor = epoch  # Older than all we have: everything we have is newer, so it ended where our history begins.
        for known, start_offset in self._entries:
            if known > epoch:
                return EpochEnd(floor, start_offset)
            floor = known
        return UNKNOWN_EPOCH_END

    def truncate_end(self, end_offset: Offset) -> None:
        """The log now ends at `end_offset`."""
        if self._entries and self._entries[-1][1] >= end_offset:
            self._replace([entry for entry in self._entries if entry[1] < end_offset])

    def truncate_start(self, start_offset: Offset) -> None:
        """The log now starts at `start_offset`: the epoch it falls in starts there, older ones are gone."""
        older = [entry for entry in self._entries if entry[1] < start_offset]
        if older:
            newer = self._entries[len(older) :]
            kept = [] if newer and newer[0][1] == start_offset else [(older[-1][0], start_offset)]
            self._replace(kept + newer)

    def clear(self) -> None:
        self._replace([])

    def _replace(self, entries: list[tuple[LeaderEpoch, Offset]]) -> None:
        """Always a new list: a worker may be writing the old one."""
        self._entries = entries
        self.latest_epoch = entries[-1][0] if entries else NO_EPOCH
