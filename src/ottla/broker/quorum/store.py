"""The files of the quorum on this node: the metadata log, `quorum-state`, snapshots.

Appends happen at once. What blocks runs in a worker, one at a time (`upkeep`): an fsync, a truncation, a read that may
wait for the disk, the end of the log before a snapshot. Reading what was just written needs no worker, unless the log is
being rewritten meanwhile.
"""

import asyncio
from collections.abc import Callable
from posixpath import join
from typing import Final

from ottla.base.clock import Clock
from ottla.base.disk import Disk
from ottla.base.errors import invariant
from ottla.base.types import LeaderEpoch, Offset
from ottla.base.workers import Workers
from ottla.broker.quorum.log_reading import bytes_of
from ottla.broker.quorum.opening import STATE_FILE_NAME
from ottla.log.directory import LogDirectory
from ottla.log.partition_log import AppendResult, PartitionLog
from ottla.metadata.snapshot import Snapshot, SnapshotFiles, SnapshotId
from ottla.raft.control_records import encode_control
from ottla.raft.log_view import LogBatch
from ottla.raft.quorum_state import QuorumState, encode_quorum_state


class QuorumStore:
    def __init__(
        self, *, log: PartitionLog, log_directory: LogDirectory, disk: Disk, clock: Clock, workers: Workers
    ) -> None:
        self.log: Final = log
        self._log_directory = log_directory
        self._disk = disk
        self._clock = clock
        self.workers: Final = workers
        self.snapshots: Final = SnapshotFiles(disk, log.directory)
        self.upkeep: Final = asyncio.Lock()
        self._is_rewriting = False

    async def write_state(self, state: QuorumState) -> None:
        """Durable on return."""
        path = join(self.log.directory, STATE_FILE_NAME)
        await self.workers.run(self._disk.replace, path, encode_quorum_state(state))

    # ---- appending ----

    def append_own(self, batch: bytearray, epoch: LeaderEpoch) -> AppendResult:
        return self.log.append_own(memoryview(batch), leader_epoch=epoch, now_ms=self._clock.now_ms())

    def append(self, batches: tuple[LogBatch, ...]) -> None:
        """All or nothing: `OSError` has changed nothing."""
        invariant(batches[0].base_offset == self.log.log_end_offset, "effects are carried out in order",
                  base_offset=batches[0].base_offset, log_end=self.log.log_end_offset)  # fmt: skip
        now_ms = self._clock.now_ms()
        (first, *more) = batches
        if first.control is not None and not first.data:
            invariant(not more, "a leader's own record is alone", count=len(batches))
            self.append_own(encode_control(first.control, timestamp=now_ms), first.epoch)
        else:
            data = first.data if not more else b"".join(batch.data for batch in batches)
            self.log.append_as_follower(memoryview(data), now_ms=now_ms)

    # ---- reading ----

    def read_now(self, offset: Offset, up_to_offset: Offset, bytes_max: int) -> bytes | None:
        """None if that would wait for the disk, or the next batch alone is larger."""
        if self._is_rewriting or not self.log.is_cached(offset):
            return None
        region = self.log.read(offset, bytes_max, up_to_offset=up_to_offset)
        if region.size > bytes_max:
            return None
        if region.file is not None and not region.is_recent and not region.file.is_cached(region.position, region.size):
            return None
        return bytes_of(region)

    def read(self, offset: Offset, up_to_offset: Offset, bytes_max: int) -> bytes:
        """Blocking, under `upkeep`."""
        return bytes_of(self.log.read(offset, bytes_max, up_to_offset=up_to_offset))

    # ---- the disk ----

    async def sync(self) -> None:
        """Under `upkeep`. `OSError`: what is on the disk is unknown; `SidecarsUnsaved`: try again."""
        synced = await self.workers.run(self.log.sync_files)
        self.log.complete_flush(synced, self._clock.now_ms())

    async def truncate(self, to_offset: Offset) -> None:
        await self._rewrite(lambda: self._truncate(to_offset))

    def _truncate(self, to_offset: Offset) -> None:
        self.log.truncate_to(to_offset, now_ms=self._clock.now_ms())
        self._log_directory.write_recovery_point(self.log)

    async def install(self, snapshot: Snapshot, on_installed: Callable[[], None]) -> None:
        """The log is empty behind the snapshot; `on_installed` is called before anybody reads it again."""
        await self._rewrite(lambda: self._restart_at(snapshot.id), on_installed)

    def _restart_at(self, snapshot_id: SnapshotId) -> None:
        self.log.truncate_fully_at(snapshot_id.end_offset)
        self._log_directory.write_recovery_point(self.log)

    async def _rewrite(self, rewrite: Callable[[], None], on_done: Callable[[], None] = lambda: None) -> None:
        async with self.upkeep:
            self._is_rewriting = True
            try:
                await self.workers.run(rewrite)
                on_done()
            finally:
                self._is_rewriting = False
