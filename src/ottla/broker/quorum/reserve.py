"""A few bytes kept on the metadata log's disk, given up for the change that shall free it once it is full."""

import logging
from posixpath import join
from typing import Final

from ottla.base.disk import Disk
from ottla.base.workers import Workers

logger = logging.getLogger(__name__)

FILE_NAME: Final = "reserve"
RESERVE_BYTES: Final = 256 << 10  # Enough for a few thousand changes of topics and configurations.
RESERVE_FROM_BYTES: Final = 64 * RESERVE_BYTES


class Reserve:
    def __init__(self, disk: Disk, workers: Workers, directory: str) -> None:
        self._disk = disk
        self._workers = workers
        self._directory = directory
        self._path = join(directory, FILE_NAME)
        self._is_kept = False

    async def give_up(self) -> bool:
        """So that the very change that shall free the disk can be recorded. False: it was gone, or cannot be removed."""
        self._is_kept = False
        try:
            return await self._workers.run(self._remove)
        except OSError as error:
            logger.error("the reserve of the metadata log cannot be given up: %s", error)
            return False

    def _remove(self) -> bool:
        if not self._disk.exists(self._path):
            return False
        self._disk.remove(self._path)
        return True

    async def keep(self) -> None:
        """Makes the reserve (again) once there is plenty of room."""
        if not self._is_kept:
            self._is_kept = await self._workers.run(self._make)

    def _make(self) -> bool:
        if self._disk.exists(self._path):
            return True
        if self._disk.free_bytes(self._directory) < RESERVE_FROM_BYTES:
            return False
        file = self._disk.open(self._path, create=True)
        try:
            file.pwrite(bytes(RESERVE_BYTES), 0)
        finally:
            file.close()
        return True
