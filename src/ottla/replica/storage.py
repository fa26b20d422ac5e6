"""A log directory and whether it takes writes. Full disks heal by themselves, failed ones do not.

A full disk (ENOSPC, EDQUOT), or a lack of descriptors, refuses writes until there is room again: the next attempt after
`RETRY_SECONDS` is let through and decides. Any other error, and every failed fsync, refuses writes until the node was
restarted and has recovered its logs; reads go on in both cases (feature L11).
"""

import asyncio
import errno
import logging
from collections.abc import Callable
from posixpath import join
from typing import Final

from ottla.base.clock import Clock
from ottla.base.disk import Disk
from ottla.base.owned_tasks import OwnedTasks
from ottla.base.workers import Workers
from ottla.log.directory import LogDirectory

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 1.0
TELL_AGAIN_SECONDS: Final = 60.0
ROOM_FILE_NAME: Final = "room"
ROOM_BYTES: Final = 256 << 10  # A disk with less is as good as full.
INSPECTIONS_MAX: Final = 2
_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)
_NO_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE)


def is_passing(error: OSError) -> bool:
    """Whether it says nothing about the disk's health and heals by itself: no space, no descriptors."""
    return error.errno in _NO_SPACE or error.errno in _NO_DESCRIPTORS


def _nobody_cares() -> None:
    pass


class Storage:
    """One log directory's health, shared by its partitions."""

    def __init__(self, directory: LogDirectory, clock: Clock, workers: Workers) -> None:
        self.directory = directory
        self.path = directory.path
        self.clock = clock
        self.workers = workers
        self._refusal: str | None = None
        self._retry_at: float | None = None
        self._told: tuple[str, float] | None = None
        """What the log was told last, and when: a full disk is tried every second and need not be told of as often."""
        self.cut_record_count = 0
        """Cut off because a leader has something else there; after an unclean election committed ones may be among them."""
        self.lost_record_count = 0
        """Those of them that were known to be committed. Who was killed may not have known of the last ones."""
        self.on_changed: Callable[[], None] = _nobody_cares
        """Called when it begins to refuse writes, and when it has found room again."""
        self.tasks = OwnedTasks()
        # Looking into a batch unpacks it: two at a time are enough work for our threads and bound the memory.
        self.inspections = asyncio.Semaphore(INSPECTIONS_MAX)
        # Retention, compaction and deletion take files of a log away, by name: one of them at a time.
        self.upkeep = asyncio.Lock()

    @property
    def is_refusing(self) -> bool:
        """Cheap: whether `refusal` is worth asking."""
        return self._refusal is not None

    @property
    def refusal(self) -> str | None:
        """Why writes are refused now, or None."""
        if self._refusal is not None and self._retry_at is not None and self.clock.monotonic() >= self._retry_at:
            self._refusal = None
        return self._refusal

    @property
    def is_full(self) -> bool:
        """Whether writes are refused for want of space."""
        return self._refusal is not None and self._retry_at is not None

    @property
    def has_failed(self) -> bool:
        """Whether writes are refused until somebody has looked at the disk."""
        return self._refusal is not None and self._retry_at is None

    def on_error(self, error: OSError) -> None:
        if self._refusal is not None and self._retry_at is None:
            return  # It failed for good; a full disk on top of that changes nothing.
        if is_passing(error):
            self._retry_at = self.clock.monotonic() + RETRY_SECONDS
            what, remedy = (
                (f"no space left in {self.path}", "lower retention, delete topics or add disk")
                if error.errno in _NO_SPACE
                else ("too many open files", "raise the limit (ulimit -n) or lower max.connections")
            )
            self._refuse(f"{what}: {remedy}; writes resume by themselves")
        else:
            self._retry_at = None
            self._refuse(f"log directory {self.path} failed ({error}): check the disk, then restart this node")

    def try_write(self, disk: Disk) -> bool:
        """Blocking. Whether a full directory has room again; where others lead by now, nothing else would try."""
        path = join(self.path, ROOM_FILE_NAME)
        try:
            file = disk.open(path, create=True)
            try:
                file.pwrite(bytes(ROOM_BYTES), 0)
            finally:
                file.close()
                disk.remove(path)
        except OSError:
            return False
        return True

    def on_room(self) -> None:
        if self.is_full:
            logger.info("log directory %s has room again", self.path)
            self._refusal = self._told = None
            self.on_changed()

    def on_sync_error(self, error: OSError) -> None:
        self._retry_at = None
        self._refuse(f"fsync failed in {self.path} ({error}): check the disk, then restart this node")

    def _refuse(self, reason: str) -> None:
        before, self._refusal = self._refusal, reason
        if before != reason:
            self._tell(reason)
            self.on_changed()

    def _tell(self, reason: str) -> None:
        now = self.clock.monotonic()
        if self._told is None or self._told[0] != reason or now - self._told[1] >= TELL_AGAIN_SECONDS:
            self._told = (reason, now)
            logger.error("log directory refuses writes: %s", reason)
