"""The producer snapshots of one partition: which offsets have one, and the files.

As Kafka keeps them: one at the base offset of each segment (it goes with the segment) and one at the end of the log
after a clean close. Safety does not depend on them: without a usable one the state is replayed from further back.
"""

import logging
from bisect import bisect_right, insort
from collections.abc import Iterable
from posixpath import join

from ottla.base.disk import Disk
from ottla.base.types import Offset, TimestampMs
from ottla.log import file_names
from ottla.log.producer_snapshot import CorruptSnapshot, decode_snapshot, encode_snapshot
from ottla.log.producer_state import ProducerState

logger = logging.getLogger(__name__)


class SnapshotFiles:
    __slots__ = ("_directory", "_disk", "_offsets")

    def __init__(self, disk: Disk, directory: str, offsets: Iterable[Offset]) -> None:
        self._disk = disk
        self._directory = directory
        self._offsets = sorted(offsets)

    @property
    def latest_offset(self) -> Offset | None:
        return self._offsets[-1] if self._offsets else None

    @property
    def offsets(self) -> list[Offset]:
        return list(self._offsets)

    def path(self, offset: Offset) -> str:
        return join(self._directory, file_names.stem(offset) + file_names.PRODUCER_SNAPSHOT)

    def write(self, offset: Offset, state: ProducerState) -> None:
        """Blocking. Not synced: one that a power cut tears fails its checksum and is passed over."""
        data = encode_snapshot(state)
        file = self._disk.open(self.path(offset), create=True)
        try:
            file.truncate(len(data))
            file.pwrite(data, 0)
        finally:
            file.close()
        if offset not in self._offsets:
            insort(self._offsets, offset)

    def load(
        self, up_to_offset: Offset, now_ms: TimestampMs, expiration_ms: int
    ) -> tuple[Offset | None, ProducerState]:
        """The newest good snapshot at or before an offset, and its offset; `None` and an empty state without one."""
        for offset in reversed(self._offsets[: bisect_right(self._offsets, up_to_offset)]):
            state = ProducerState()
            try:
                for producer_id, producer in decode_snapshot(self._disk.read(self.path(offset))):
                    state.load(producer_id, producer)
            except CorruptSnapshot as error:
                logger.warning("producer snapshot %s is unusable and removed: %s", self.path(offset), error)
                self.remove(offset)
            else:
                state.expire(now_ms, expiration_ms)
                return offset, state
        return None, ProducerState()

    def forget(self, offset: Offset) -> bool:
        """The file goes, or went, with its segment. False: there was none."""
        if offset not in self._offsets:
            return False
        self._offsets.remove(offset)
        return True

    def remove(self, offset: Offset) -> None:
        if self.forget(offset):
            self._disk.remove(self.path(offset))

    def remove_above(self, offset: Offset) -> None:
        """The log was cut. For good: if a crash brought one back, it would tell of producers of another history."""
        stale = [kept for kept in self._offsets if kept > offset]
        for each in stale:
            self.remove(each)
        if stale:
            self._disk.sync_directory(self._directory)

    def remove_strays(self, base_offsets: set[Offset]) -> None:
        """All but those of a segment and the last of all."""
        for stray in [offset for offset in self._offsets[:-1] if offset not in base_offsets]:
            self.remove(stray)
