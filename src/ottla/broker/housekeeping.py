"""What a node does by the clock: retention, compaction, checkpoints, producer expiry, metadata snapshots.

Each chore runs alone and never twice at a time; a chore that fails is logged and runs again at its next turn.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from ottla.base.errors import ApiError
from ottla.broker.compaction import Cleaner, Compaction
from ottla.broker.start import OpenNode
from ottla.log.partition_log import PartitionLog
from ottla.log.segment import Segment
from ottla.replica.partition import Partition
from ottla.replica.storage import Storage

logger = logging.getLogger(__name__)

PRODUCER_EXPIRY_SECONDS: Final = 600.0
SNAPSHOT_CHECK_SECONDS: Final = 5.0
FULL_DISK_CHECK_SECONDS: Final = 0.5
PARTITIONS_PER_TURN: Final = 500  # Then the loop gets its turn.


class Housekeeping:
    def __init__(self, opened: OpenNode, new_cleaner: Callable[[], Cleaner] | None = None) -> None:
        self._opened = opened
        self._node = opened.node
        self.compaction = Compaction(opened.node, new_cleaner)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        config = self._node.config
        self._every(config.integer("log.retention.check.interval.ms") / 1000, self.enforce_retention)
        self._every(config.integer("log.flush.offset.checkpoint.interval.ms") / 1000, self.write_recovery_points)
        self._every(config.integer("log.flush.start.offset.checkpoint.interval.ms") / 1000, self.write_log_starts)
        self._every(config.integer("replica.high.watermark.checkpoint.interval.ms") / 1000, self.write_high_watermarks)
        self._every(PRODUCER_EXPIRY_SECONDS, self.expire_producers)
        self._every(
            config.integer("transaction.abort.timed.out.transaction.cleanup.interval.ms") / 1000,
            self._node.transactions.abort_overdue,
        )
        self._every(
            config.integer("transaction.remove.expired.transaction.cleanup.interval.ms") / 1000,
            self._node.transactions.expire_ids,
        )
        self._every(SNAPSHOT_CHECK_SECONDS, self.snapshot_metadata)
        self._every(FULL_DISK_CHECK_SECONDS, self.relieve_full_disks)
        if config.flag("log.cleaner.enable"):
            self._every(config.integer("log.cleaner.backoff.ms") / 1000, self.compaction.compact_logs)
        self._node.partitions.on_retention_changed = self._on_retention_changed

    def _every(self, seconds: float, chore: Callable[[], Awaitable[None]]) -> None:
        name = chore.__name__
        self._tasks.append(asyncio.get_running_loop().create_task(self._repeat(seconds, chore, name), name=name))

    async def _repeat(self, seconds: float, chore: Callable[[], Awaitable[None]], name: str) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await chore()
            except OSError as error:  # A full disk, say: no bug, so no traceback.
                logger.error("%s failed: %s; it runs again in %s s", name, error, seconds)
            except Exception:
                logger.exception("%s failed; it runs again in %s s", name, seconds)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    # -- chores ------------------------------------------------------------------------------------------------------

    async def enforce_retention(self) -> None:
        for partition in list(self._node.partitions):
            await self._enforce_retention(partition)

    async def _enforce_retention(self, partition: Partition) -> None:
        if partition.log.size_bytes == 0:
            return
        expired = await partition.enforce_retention()
        if expired:
            logger.info("%s: %d segments expired, log starts at %d", partition.topic_partition, len(expired),
                        partition.log.log_start_offset)  # fmt: skip
            self._delete_later(partition, expired)

    def _delete_later(self, partition: Partition, segments: list[Segment]) -> None:
        """After `file.delete.delay.ms`; at once where the disk is full."""
        delay_ms = 0 if partition.storage.refusal is not None else partition.log.config.file_delete_delay_ms
        loop = asyncio.get_running_loop()

        tasks = partition.storage.tasks
        loop.call_later(delay_ms / 1000, lambda: tasks.spawn(self._delete(partition, segments), name="delete segments"))

    async def _delete(self, partition: Partition, segments: list[Segment]) -> None:
        await self._node.workers.run(partition.log.delete_files, segments)

    def _on_retention_changed(self, partition: Partition) -> None:
        """A live change takes effect now, not at the next turn (feature L6)."""
        partition.storage.tasks.spawn(self._enforce_retention_now(partition), name="retention")

    async def _enforce_retention_now(self, partition: Partition) -> None:
        try:
            await self._enforce_retention(partition)
        except (ApiError, OSError) as error:
            logger.error("retention of %s failed: %s; it is tried again", partition.topic_partition, error)

    async def relieve_full_disks(self) -> None:
        """Deletes what may go without waiting, and once there is room again opens what could not be opened."""
        for storage in self._opened.storages:
            if storage.is_full:
                for partition in self._node.partitions.in_directory(storage.path):
                    await self._enforce_retention(partition)
                if await self._node.workers.run(storage.try_write, self._node.disk):
                    storage.on_room()
        await self._node.partitions.reopen_offline(self._node.image)
        await self._node.quorum.reserve.keep()

    async def write_recovery_points(self) -> None:
        await self._checkpoint(lambda storage, logs: storage.directory.write_recovery_points(logs))

    async def write_log_starts(self) -> None:
        await self._checkpoint(lambda storage, logs: storage.directory.write_log_starts(logs))

    async def write_high_watermarks(self) -> None:
        for storage in self._opened.storages:
            await self._node.partitions.write_high_watermarks(storage)

    async def _checkpoint(self, write: Callable[[Storage, list[PartitionLog]], None]) -> None:
        for storage in self._opened.storages:
            async with storage.upkeep:  # A truncation moves a recovery point back: it must not be overwritten.
                logs: list[PartitionLog] = [one.log for one in self._node.partitions.in_directory(storage.path)]
                await self._node.workers.run(write, storage, logs)

    async def expire_producers(self) -> None:
        now_ms = self._node.clock.now_ms()
        for number, partition in enumerate(list(self._node.partitions)):
            partition.log.expire_producers(now_ms)
            if number % PARTITIONS_PER_TURN == 0:
                await asyncio.sleep(0)

    async def snapshot_metadata(self) -> None:
        await self._opened.metadata_snapshots.maybe_take()
