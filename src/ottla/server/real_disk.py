"""The real `Disk` and `File` of base/disk.py, over POSIX calls.

A file closes itself when its last reference goes, so a cache may forget a handle that a response is still being sent
from. Short writes and reads are continued here; every descriptor is closed on exec. `fdatasync` writes data and size,
which is what a log needs; systems without it (macOS) use `fsync`.
"""

import contextlib
import errno
import os
import shutil
from typing import Final, TypeAlias

from ottla.base.disk import Buffer

PROBE_STEP_BYTES: Final = 64 << 10  # Half the kernel's usual read-ahead window: cached pages come in runs.
_NOWAIT: Final = getattr(os, "RWF_NOWAIT", 0)  # Linux alone.
_probe: Final = bytearray(1)
_FILE_MODE: Final = 0o644
_OPEN_FLAGS: Final = os.O_RDWR | os.O_CLOEXEC
_Sizes: TypeAlias = list[tuple[str, int]]  # `list` is a method below.
_sync = getattr(os, "fdatasync", os.fsync)


class RealFile:
    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def pread(self, size: int, position: int) -> bytes:
        data = os.pread(self._descriptor, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        got_bytes = len(data)
        while got_bytes < size and (data := os.pread(self._descriptor, size - got_bytes, position + got_bytes)):
            parts.append(data)
            got_bytes += len(data)
        return b"".join(parts)

    def pwrite(self, data: Buffer, position: int) -> None:
        written_bytes = os.pwrite(self._descriptor, data, position)
        if written_bytes != len(data):
            self._pwrite_rest(memoryview(data), position, written_bytes)

    def _pwrite_rest(self, data: memoryview, position: int, written_bytes: int) -> None:
        while written_bytes < len(data):
            written_bytes += os.pwrite(self._descriptor, data[written_bytes:], position + written_bytes)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        _sync(self._descriptor)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def is_cached(self, position: int, size: int) -> bool:
        """Probes one byte per step and the last one. Where the system cannot tell, everything counts as cached."""
        if not _NOWAIT or size <= 0:
            return True
        last = position + size - 1
        try:
            for probed in range(position, last, PROBE_STEP_BYTES):
                os.preadv(self._descriptor, (_probe,), probed, _NOWAIT)
            os.preadv(self._descriptor, (_probe,), last, _NOWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
        return True

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        # At interpreter shutdown `os` may be gone already; the kernel closes what is left.
        with contextlib.suppress(OSError, AttributeError, TypeError):
            self.close()


class RealDisk:
    __slots__ = ()

    def open(self, path: str, *, create: bool = False) -> RealFile:
        flags = _OPEN_FLAGS | os.O_CREAT if create else _OPEN_FLAGS
        return RealFile(path, os.open(path, flags, _FILE_MODE))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)  # noqa: PTH110

    def list(self, path: str) -> list[str]:
        return sorted(os.listdir(path))  # noqa: PTH208

    def list_with_sizes(self, path: str) -> _Sizes:
        with os.scandir(path) as entries:
            return sorted((entry.name, entry.stat().st_size) for entry in entries if entry.is_file())

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)  # noqa: PTH103

    def read(self, path: str) -> bytes:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            parts = []
            while data := os.read(descriptor, max(os.fstat(descriptor).st_size, 1) + 1):
                parts.append(data)
            return parts[0] if len(parts) == 1 else b"".join(parts)
        finally:
            os.close(descriptor)

    def replace(self, path: str, data: bytes) -> None:
        temporary = f"{path}.tmp"
        file = self.open(temporary, create=True)
        try:
            file.truncate(0)
            file.pwrite(data, 0)
            file.sync()
        finally:
            file.close()
        os.replace(temporary, path)  # noqa: PTH105
        self.sync_directory(os.path.dirname(path))

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)  # noqa: PTH105

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108

    def remove_tree(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path or ".", os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def free_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000  # noqa: PTH116
