"""Logs of partitions that are of this node no more: renamed at once, so that their name is free, removed later.

What a crash has left of that is removed in the background after the start, be it thousands of directories.
"""

import asyncio
import logging
from collections.abc import Sequence

from ottla.base.owned_tasks import OwnedTasks
from ottla.base.workers import Workers
from ottla.replica.partition import Partition
from ottla.replica.storage import Storage

logger = logging.getLogger(__name__)


class Removal:
    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._left_over = OwnedTasks()

    async def close(self) -> None:
        """What is left of the left-over is for the next start."""
        await self._left_over.cancel()

    async def remove(self, partition: Partition) -> None:
        """Of a partition that nobody finds any more."""
        storage = partition.storage
        try:
            async with storage.upkeep:
                # It may come back, and leave again before this copy is removed.
                unique = f"{partition.topic_id.hex}-{partition.leader_epoch}"
                path = await self._workers.run(storage.directory.rename_deleted, partition.log, unique)
        except OSError as error:
            logger.error("cannot delete %s: %s", partition.topic_partition, error)
            return
        self._remove_later(partition, path)

    def _remove_later(self, partition: Partition, path: str) -> None:
        """After `file.delete.delay.ms`, or at once where the disk is full."""
        storage = partition.storage
        delay_ms = 0 if storage.refusal is not None else partition.log.config.file_delete_delay_ms
        asyncio.get_running_loop().call_later(
            delay_ms / 1000,
            lambda: storage.tasks.spawn(self._remove(storage, path), name=f"delete {path}"),
        )

    async def _remove(self, storage: Storage, path: str) -> None:
        await self._workers.run(storage.directory.remove_deleted, path)

    async def remove_left_over(self, storage: Storage) -> None:
        """Returns when it has begun."""
        paths = await self._workers.run(storage.directory.find_deleted)
        if paths:
            self._left_over.spawn(self._remove_all(storage, paths), name=f"remove what was deleted in {storage.path}")

    async def _remove_all(self, storage: Storage, paths: Sequence[str]) -> None:
        for path in paths:
            try:
                await self._remove(storage, path)
            except OSError as error:
                logger.error("cannot remove %s: %s; the next start tries again", path, error)
