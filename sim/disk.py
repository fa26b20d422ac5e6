"""A disk in memory that forgets what was not synced.

Every file has its bytes as the page cache shows them and as stable storage holds them; every directory its entries
likewise, with the changes in between. `crash` keeps the stable state and, by seed, any part of the rest: sectors of
files, the first few changes of a directory (changes of one directory reach storage in order, as journals do it). A file
whose entry was never synced can therefore be gone although its bytes were synced.

Faults are set in advance: `crash_at` ends the world before the nth change, `fail_at` lets the nth call fail with an
errno, `capacity_bytes` fills up. Every call is counted and traced, so that a test can visit each of them.
"""

import errno
import os
import posixpath
import zlib
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from ottla.base.disk import Buffer
from sim.disk_nodes import DirectoryNode, FileNode, Kept, Node, used_bytes
from sim.trace import Trace

UNBOUNDED_BYTES: Final = 1 << 62


class SimulatedCrash(BaseException):
    """The machine lost power at this call. Not an `Exception`: no code of ours survives it."""


class SimulatedFile:
    """Implements `base.disk.File`. A handle of before a crash is dead."""

    def __init__(self, disk: "SimulatedDisk", node: FileNode, path: str) -> None:
        self._disk = disk
        self._node = node
        self._generation = disk.generation
        self._closed = False
        self.path = path

    def pread(self, size: int, position: int) -> bytes:
        self._enter("pread", size, position)
        return bytes(self._node.cached[position : position + size])

    def pwrite(self, data: Buffer, position: int) -> None:
        content = bytes(data)
        # A write that fails may have left any part of itself behind.
        self._enter(
            "pwrite", position, len(content), zlib.crc32(content), on_error=lambda: self._write_part(content, position)
        )
        room = self._disk.room_bytes()
        if position + len(content) - len(self._node.cached) > room:
            self._write(content[: max(0, room + len(self._node.cached) - position)], position)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
        self._write(content, position)

    def _write_part(self, content: bytes, position: int) -> None:
        self._write(content[: self._disk.chance.randint(0, len(content))], position)

    def _write(self, content: bytes, position: int) -> None:
        cached = self._node.cached
        if position > len(cached):
            cached.extend(bytes(position - len(cached)))
        cached[position : position + len(content)] = content
        self._node.modified_ms = self._disk.now_ms()

    def truncate(self, size: int) -> None:
        self._enter("truncate", size)
        self._node.truncate(size)

    def sync(self) -> None:
        self._enter("sync")
        self._node.sync()

    def size(self) -> int:
        self._enter("size")
        return len(self._node.cached)

    def is_cached(self, position: int, size: int) -> bool:
        return self._disk.is_warm

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "a simulated file has no descriptor", self.path)

    def close(self) -> None:
        self._closed = True

    def _enter(self, call: str, *facts: object, on_error: Callable[[], None] | None = None) -> None:
        if self._closed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)
        if self._generation != self._disk.generation:
            raise SimulatedCrash(f"{self.path} was opened before the crash")
        self._disk.enter(call, self.path, *facts, on_error=on_error)


_CHANGING: Final = frozenset(
    ("pwrite", "truncate", "sync", "create", "make_directory", "rename", "remove", "sync_directory")
)
_NEEDING_SPACE: Final = frozenset(("pwrite", "create", "make_directory", "rename"))


class SimulatedDisk:
    """Implements `base.disk.Disk`."""

    def __init__(
        self,
        chance: Random,
        trace: Trace | None = None,
        *,
        now_ms: Callable[[], int] = lambda: 0,
        capacity_bytes: int | None = None,
    ) -> None:
        self.chance = chance
        self.trace = trace or Trace()
        self.now_ms = now_ms
        self.capacity_bytes = capacity_bytes
        self.on_death: Callable[[], None] = lambda: None
        self.is_warm = True  # Whether reads find everything in the page cache.
        self.generation = 0
        self.call_count = 0
        self.change_count = 0
        self._root = DirectoryNode()
        self._dead = False
        self._crash_at: int | None = None
        self._fail_at: int | None = None
        self._fail_errno = errno.EIO

    # -- faults ------------------------------------------------------------------------------------------------------

    def crash_at(self, change: int | None) -> None:
        """The world ends before change number `change` from now (0 is the next one)."""
        self._crash_at = None if change is None else self.change_count + change

    def fail_at(self, call: int | None, error: int = errno.EIO) -> None:
        """Call number `call` from now fails once, reads included; ENOSPC waits for the next call that needs space."""
        self._fail_at = None if call is None else self.call_count + call
        self._fail_errno = error

    def crash(self, kept: Kept) -> None:
        """Power is back: handles are dead, unsynced bytes and names are lost as `kept` says, faults are cleared."""
        self.trace.add("crash", kept.value)
        self._root.crash(kept, self.chance)
        self.generation += 1
        self._dead = False
        self._crash_at = self._fail_at = None

    @property
    def is_to_fail(self) -> bool:
        """Whether the call that `fail_at` announced has not been made yet."""
        return self._fail_at is not None

    def wipe(self) -> None:
        """Another disk, with nothing on it."""
        self.trace.add("wipe")
        self._root = DirectoryNode()

    def enter(self, call: str, path: str, *facts: object, on_error: Callable[[], None] | None = None) -> None:
        """Counts and traces one call, and lets it meet its fault."""
        if self._dead:
            raise SimulatedCrash("the machine is off")
        self.trace.add(call, path, *facts)
        if call in _CHANGING:
            if self.change_count == self._crash_at:
                self._dead = True
                self.on_death()
                raise SimulatedCrash(f"before {call} {path}")
            self.change_count += 1
        self.call_count += 1
        if self._fail_at is not None and self.call_count > self._fail_at and self._can_fail(call):
            self._fail_at = None
            if on_error is not None:
                on_error()
            raise OSError(self._fail_errno, os.strerror(self._fail_errno), path)

    def _can_fail(self, call: str) -> bool:
        return self._fail_errno != errno.ENOSPC or call in _NEEDING_SPACE

    def room_bytes(self) -> int:
        return UNBOUNDED_BYTES if self.capacity_bytes is None else max(0, self.capacity_bytes - self.used_bytes())

    def used_bytes(self) -> int:
        return used_bytes(self._root)

    # -- Disk --------------------------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        self.enter("open", path)
        parent, name = self._parent(path)
        node = parent.cached.get(name)
        if node is None:
            if not create:
                raise _missing(path)
            self.enter("create", path)
            node = FileNode()
            node.modified_ms = self.now_ms()
            parent.change({name: node})
        if not isinstance(node, FileNode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return SimulatedFile(self, node, path)

    def exists(self, path: str) -> bool:
        self.enter("exists", path)
        return self._find(path) is not None

    def list(self, path: str) -> list[str]:
        self.enter("list", path)
        return sorted(self._directory(path).cached)

    def list_with_sizes(self, path: str) -> Sequence[tuple[str, int]]:
        self.enter("list_with_sizes", path)
        entries = sorted(self._directory(path).cached.items())
        return [(name, len(node.cached)) for name, node in entries if isinstance(node, FileNode)]

    def make_directory(self, path: str) -> None:
        directory = self._root
        walked = ""
        for name in _names(path):
            walked += "/" + name
            child = directory.cached.get(name)
            if child is None:
                self.enter("make_directory", walked)
                child = DirectoryNode()
                directory.change({name: child})
            if not isinstance(child, DirectoryNode):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), walked)
            directory = child

    def read(self, path: str) -> bytes:
        self.enter("read", path)
        return bytes(self._file(path).cached)

    def replace(self, path: str, data: bytes) -> None:
        """The five steps of the real one, each of which may be the last."""
        temporary = f"{path}.tmp"
        file = self.open(temporary, create=True)
        file.truncate(0)
        file.pwrite(data, 0)
        file.sync()
        file.close()
        self.rename(temporary, path)
        self.sync_directory(posixpath.dirname(path))

    def rename(self, source: str, target: str) -> None:
        self.enter("rename", source, target)
        source_parent, source_name = self._parent(source)
        target_parent, target_name = self._parent(target)
        if source_parent is not target_parent:
            raise OSError(errno.EXDEV, "renames stay in their directory", source)
        node = source_parent.cached.get(source_name)
        if node is None:
            raise _missing(source)
        source_parent.change({source_name: None, target_name: node})

    def remove(self, path: str) -> None:
        self.enter("remove", path)
        node = self._find(path)
        if isinstance(node, DirectoryNode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if node is not None:
            parent, name = self._parent(path)
            parent.change({name: None})

    def remove_tree(self, path: str) -> None:
        node = self._find(path)
        if isinstance(node, DirectoryNode):
            for name in sorted(node.cached):
                child = posixpath.join(path, name)
                if isinstance(node.cached[name], DirectoryNode):
                    self.remove_tree(child)
                else:
                    self.remove(child)
            self.enter("remove", path)
            parent, name = self._parent(path)
            parent.change({name: None})

    def sync_directory(self, path: str) -> None:
        self.enter("sync_directory", path)
        self._directory(path).sync()

    def free_bytes(self, path: str) -> int:
        self.enter("free_bytes", path)
        return self.room_bytes()

    def total_bytes(self, path: str) -> int:
        self.enter("total_bytes", path)
        return UNBOUNDED_BYTES if self.capacity_bytes is None else self.capacity_bytes

    def modified_ms(self, path: str) -> int:
        self.enter("modified_ms", path)
        return self._file(path).modified_ms

    # -- finding -----------------------------------------------------------------------------------------------------

    def _find(self, path: str) -> "Node | None":
        node: Node = self._root
        for name in _names(path):
            if not isinstance(node, DirectoryNode) or name not in node.cached:
                return None
            node = node.cached[name]
        return node

    def _parent(self, path: str) -> tuple[DirectoryNode, str]:
        return self._directory(posixpath.dirname(path)), posixpath.basename(path)

    def _directory(self, path: str) -> DirectoryNode:
        node = self._find(path)
        if node is None:
            raise _missing(path)
        if not isinstance(node, DirectoryNode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return node

    def _file(self, path: str) -> FileNode:
        node = self._find(path)
        if node is None:
            raise _missing(path)
        if not isinstance(node, FileNode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return node


def _names(path: str) -> Sequence[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
