"""Files as a port. Every call blocks, so only the calls named below may run on the event loop.

On the loop: `File.pwrite` (page cache), `File.pread` of what was just written or `is_cached`, `File.size`.
Everything else runs through `Workers`. A write is all or nothing to the caller: short writes are continued,
an error raises `OSError` and the file's tail is then unknown.
"""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview


class File(Protocol):
    path: str

    def pread(self, size: int, position: int) -> bytes:
        """At most `size` bytes; fewer only at the end of the file."""
        ...

    def pwrite(self, data: Buffer, position: int) -> None: ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Returns once data and size are on stable storage."""
        ...

    def size(self) -> int: ...

    def is_cached(self, position: int, size: int) -> bool:
        """Whether reading the region would not wait for the disk: a good guess, made without waiting."""
        ...

    def fileno(self) -> int:
        """For `sendfile`; a simulated file has none and raises `OSError`."""
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    def open(self, path: str, *, create: bool = False) -> File:
        """For reading and writing. Without `create` a missing file is `FileNotFoundError`."""
        ...

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> list[str]:
        """Names in the directory, sorted."""
        ...

    def list_with_sizes(self, path: str) -> Sequence[tuple[str, int]]:
        """Regular files in the directory with their sizes, sorted by name: one call opens a partition."""
        ...

    def make_directory(self, path: str) -> None:
        """With parents; an existing one is fine."""
        ...

    def read(self, path: str) -> bytes: ...

    def replace(self, path: str, data: bytes) -> None:
        """Atomic and durable: temporary file, sync, rename, sync of the directory."""
        ...

    def rename(self, source: str, target: str) -> None: ...

    def remove(self, path: str) -> None:
        """A missing file is fine."""
        ...

    def remove_tree(self, path: str) -> None:
        """A missing directory is fine."""
        ...

    def sync_directory(self, path: str) -> None: ...

    def free_bytes(self, path: str) -> int: ...

    def total_bytes(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...
