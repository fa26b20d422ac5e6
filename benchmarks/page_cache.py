"""Keeps the machine's memory full, so that no measurement pays for the first touch of a fresh page.

On many virtual machines the first use of a free page costs a fault in the host, and a run that lands on free memory
measures that instead of a broker. One file of about the size of the memory is written once; reading it until nothing
is free makes the kernel recycle page-cache pages from then on. Deleting large files frees memory and undoes it, so
brokers' data stays until the end, and every round asks again.
"""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

CHUNK_BYTES: Final = 8 << 20
DISK_RESERVE_BYTES: Final = 40 << 30  # What the brokers write during a full run, with room to spare.

_FREE_SHARE_MAX: Final = 0.02  # The kernel itself never lets the last percent go.


class DiskTooSmall(Exception):
    """There is no room for the file that fills memory."""


def memory_bytes(field: str) -> int:
    """`MemTotal`, `MemFree` … of /proc/meminfo."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


class PageCacheFill:
    """The file that fills memory. `top_up` costs nothing while memory is full."""

    def __init__(self, directory: Path, *, size_bytes: int | None = None) -> None:
        self._path = directory / "page-cache-fill"
        self._size_bytes = size_bytes or memory_bytes("MemTotal")
        self._position = 0

    def create(self, on_progress: Callable[[float], None]) -> None:
        free_bytes = shutil.disk_usage(self._path.parent).free
        if free_bytes < self._size_bytes + DISK_RESERVE_BYTES:
            needed_gib = (self._size_bytes + DISK_RESERVE_BYTES) >> 30
            raise DiskTooSmall(f"{free_bytes >> 30} GiB free in {self._path.parent}, {needed_gib} GiB needed: --quick")
        chunk = os.urandom(CHUNK_BYTES)  # Nothing between us and the disk can shrink it.
        with self._path.open("wb") as file:
            for written in range(0, self._size_bytes, CHUNK_BYTES):
                file.write(chunk)
                on_progress(written / self._size_bytes)
            file.flush()
            os.fsync(file.fileno())

    def top_up(self) -> None:
        """Reads on from where the last reading stopped until no memory is free, one pass at most."""
        target_bytes = int(memory_bytes("MemTotal") * _FREE_SHARE_MAX)
        buffer = bytearray(CHUNK_BYTES)
        with self._path.open("rb", buffering=0) as file:
            for _ in range(0, self._size_bytes, CHUNK_BYTES):
                if memory_bytes("MemFree") <= target_bytes:
                    return
                file.seek(self._position)
                count = file.readinto(buffer)
                self._position = self._position + count if count else 0

    def remove(self) -> None:
        with suppress(FileNotFoundError):
            self._path.unlink()


def write_to_disk(directory: Path) -> None:
    """Every file below `directory`, so that what follows is not slowed by the writing of what came before."""
    for path in directory.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
