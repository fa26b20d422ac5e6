"""Files and directories of the simulated disk: what the page cache shows, what stable storage holds, what a crash leaves."""

from enum import Enum
from random import Random
from typing import Final, TypeAlias

SECTOR_BYTES: Final = 512

Node: TypeAlias = "FileNode | DirectoryNode"
Change: TypeAlias = "dict[str, FileNode | DirectoryNode | None]"  # One directory's entries; None is gone.


class Kept(Enum):
    """What a crash leaves of the bytes and names that were not synced."""

    NOTHING = "nothing"
    PART = "part"
    EVERYTHING = "everything"  # Only the process died: all is still in the page cache, and still not synced.


class FileNode:
    def __init__(self) -> None:
        self.cached = bytearray()
        self.stable = b""
        self.cut_to: int | None = None  # The smallest size since the last sync, where that is below the stable one.
        self.modified_ms = 0

    def truncate(self, size: int) -> None:
        if size < len(self.stable):
            self.cut_to = size if self.cut_to is None else min(self.cut_to, size)
        del self.cached[size:]
        self.cached.extend(bytes(size - len(self.cached)))

    def sync(self) -> None:
        self.stable = bytes(self.cached)
        self.cut_to = None

    def crash(self, kept: Kept, chance: Random) -> None:
        if kept is Kept.EVERYTHING:
            return
        if kept is Kept.NOTHING:
            self.cached = bytearray(self.stable)
        elif self.cached != self.stable:
            self.cached = self._mixed(chance)
        self.sync()

    def _mixed(self, chance: Random) -> bytearray:
        """The old bytes with some new ones over them; what is in the new size but never arrived reads as zeros."""
        old, new = self.stable, self.cached
        luck = chance.random()
        if luck < 0.2:
            return new
        if self.cut_to is not None:  # What came after the cut cannot have arrived without it.
            if luck < 0.4:
                return bytearray(old)
            old = old[: self.cut_to]
        size = chance.choice((len(old), len(new), chance.randint(*sorted((len(old), len(new))))))
        mixed = bytearray(size)
        mixed[: len(old)] = old[:size]
        if chance.random() < 0.5:  # The write stopped somewhere, perhaps inside a sector.
            arrived = [(0, chance.randint(0, size))]
        else:
            starts = range(0, size, SECTOR_BYTES)
            arrived = [(start, min(start + SECTOR_BYTES, size)) for start in starts if chance.random() < 0.5]
        for start, end in arrived:
            piece = new[start:end]
            mixed[start : start + len(piece)] = piece
        return mixed


class DirectoryNode:
    def __init__(self) -> None:
        self.cached: dict[str, Node] = {}
        self.stable: dict[str, Node] = {}
        self.changes: list[Change] = []  # Not synced yet, in order; each is atomic.

    def change(self, entries: Change) -> None:
        _apply(self.cached, entries)
        self.changes.append(entries)

    def sync(self) -> None:
        self.stable = dict(self.cached)
        self.changes.clear()

    def crash(self, kept: Kept, chance: Random) -> None:
        if kept is Kept.EVERYTHING:
            return
        arrived = chance.randint(0, len(self.changes)) if kept is Kept.PART else 0
        self.cached = dict(self.stable)
        for entries in self.changes[:arrived]:
            _apply(self.cached, entries)
        self.sync()
        for name in sorted(self.cached):
            self.cached[name].crash(kept, chance)


def used_bytes(node: Node) -> int:
    if isinstance(node, FileNode):
        return len(node.cached)
    return sum(used_bytes(child) for child in node.cached.values())


def _apply(entries: dict[str, Node], change: Change) -> None:
    for name, node in change.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node
