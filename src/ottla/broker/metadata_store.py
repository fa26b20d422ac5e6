"""The metadata log's disk side: group fsync, snapshots, and what goes once a snapshot is written.

`wait_durable` is what `QuorumOfOne` waits for: one fsync in a worker serves everyone who waits, and those who come
meanwhile share the next. A failed fsync is final: the node refuses metadata changes until it is restarted.
"""

import asyncio
import logging
from posixpath import join
from typing import Final

from ottla.base.clock import Clock
from ottla.base.disk import Disk
from ottla.base.types import Offset
from ottla.base.workers import Workers
from ottla.log.partition_log import PartitionLog
from ottla.metadata.image import MetadataImage
from ottla.metadata.snapshot import SnapshotFiles

logger = logging.getLogger(__name__)

RESERVE_NAME: Final = "reserve"
RESERVE_BYTES: Final = 256 << 10  # Enough for a few thousand changes of topics and configurations.
RESERVE_FROM_BYTES: Final = 64 * RESERVE_BYTES


class MetadataStore:
    def __init__(
        self,
        *,
        log: PartitionLog,
        disk: Disk,
        clock: Clock,
        workers: Workers,
        snapshot_bytes: int,
        snapshot_seconds: float,
    ) -> None:
        self.log = log
        self._clock = clock
        self._workers = workers
        self._disk = disk
        self._has_reserve = False
        self._reserve_path = join(log.directory, RESERVE_NAME)
        self._snapshots = SnapshotFiles(disk, log.directory)
        self._snapshot_bytes = snapshot_bytes
        self._snapshot_seconds = snapshot_seconds
        self._bytes_at_snapshot = log.size_bytes
        self._snapshot_at = clock.monotonic()
        self._lock = asyncio.Lock()
        self._failed: OSError | None = None

    # -- room on a full disk -----------------------------------------------------------------------------------------

    async def make_room(self) -> bool:
        """Gives the reserve up, so that the very change that shall free the disk can be recorded. False: it was gone."""
        self._has_reserve = False
        return await self._workers.run(self._remove_reserve)

    def _remove_reserve(self) -> bool:
        if not self._disk.exists(self._reserve_path):
            return False
        self._disk.remove(self._reserve_path)
        return True

    async def keep_reserve(self) -> None:
        """Makes the reserve (again) once there is plenty of room."""
        if not self._has_reserve:
            self._has_reserve = await self._workers.run(self._make_reserve)

    def _make_reserve(self) -> bool:
        if self._disk.exists(self._reserve_path):
            return True
        if self._disk.free_bytes(self.log.directory) < RESERVE_FROM_BYTES:
            return False
        file = self._disk.open(self._reserve_path, create=True)
        try:
            file.pwrite(bytes(RESERVE_BYTES), 0)
        finally:
            file.close()
        return True

    # -- durability --------------------------------------------------------------------------------------------------

    async def wait_durable(self, end_offset: Offset) -> None:
        """Until everything below `end_offset` is on stable storage."""
        while self.log.durable_end_offset < end_offset:
            async with self._lock:
                if self._failed is not None:
                    raise self._failed
                if self.log.durable_end_offset >= end_offset:
                    return
                try:
                    synced = await self._workers.run(self.log.sync_files)
                except OSError as error:
                    self._failed = error
                    logger.error("the metadata log cannot be synced: %s; check the disk, then restart this node", error)
                    raise
                self.log.complete_flush(synced, self._clock.now_ms())

    async def maybe_snapshot(self, image: MetadataImage) -> bool:
        """Writes a snapshot when the log has grown enough, and drops what lies before it. `OSError`: tried again later."""
        if not self._is_snapshot_due() or self._failed is not None:
            return False
        copy = image.copy()
        await self._workers.run(self._snapshots.write, copy, self._clock.now_ms())
        needed_from = await self._workers.run(self._snapshots.remove_old)
        async with self._lock:
            # On the loop, though it makes a file: an append must not come between the two halves of a roll.
            self.log.roll()
            self.log.delete_records_before(needed_from)
            expired = await self._workers.run(self.log.plan_retention, self._clock.now_ms())
            self.log.detach(expired)
        await self._workers.run(self.log.rename_deleted, expired)
        await self._workers.run(self.log.delete_files, expired)
        self._bytes_at_snapshot = self.log.size_bytes
        self._snapshot_at = self._clock.monotonic()
        logger.info("metadata snapshot written up to offset %d", copy.offset)
        return True

    def _is_snapshot_due(self) -> bool:
        """By what was appended since the last one, or by time if there was anything."""
        new_bytes = self.log.size_bytes - self._bytes_at_snapshot
        waited = self._clock.monotonic() - self._snapshot_at
        return new_bytes >= self._snapshot_bytes or (new_bytes > 0 and 0 < self._snapshot_seconds <= waited)
