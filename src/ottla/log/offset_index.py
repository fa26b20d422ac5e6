"""The sparse offset index of a segment: from an offset to a place in the log file at or before its batch.

In memory two int32 arrays, searched by bisection; on disk Kafka's `.index`, big-endian pairs of (offset relative to the
segment's base, position), trimmed to size. An entry names the *last* offset of the batch at its position, so the entry
with the greatest offset <= target never lies behind the batch that holds the target.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import Final

ENTRY_BYTES: Final = 8
RELATIVE_OFFSET_MAX: Final = 2**31 - 1
_SWAPPED: Final = sys.byteorder == "little"


class OffsetIndex:
    __slots__ = ("_positions", "_relative_offsets")

    def __init__(self) -> None:
        self._relative_offsets = array("i")
        self._positions = array("i")

    def __len__(self) -> int:
        return len(self._positions)

    @classmethod
    def decode(cls, data: bytes) -> "OffsetIndex":
        """`ValueError` for bytes that are not a sane index: it is rebuilt from the log then."""
        if len(data) % ENTRY_BYTES:
            raise ValueError(f"{len(data)} bytes are not a multiple of {ENTRY_BYTES}")
        words = array("i", data)
        if _SWAPPED:
            words.byteswap()
        index = cls()
        index._relative_offsets = words[0::2]
        index._positions = words[1::2]
        if not (_is_growing(index._relative_offsets) and _is_growing(index._positions)):
            raise ValueError("entries do not grow")
        return index

    def encode(self) -> bytes:
        relative_offsets, positions = self._relative_offsets, self._positions
        count = len(positions)  # The loop may append meanwhile; offsets are appended first, so they are no fewer.
        words = array("i", bytes(count * ENTRY_BYTES))
        words[0::2] = relative_offsets[:count]
        words[1::2] = positions[:count]
        if _SWAPPED:
            words.byteswap()
        return words.tobytes()

    @property
    def last_relative_offset(self) -> int:
        return self._relative_offsets[-1] if self._relative_offsets else -1

    def append(self, relative_offset: int, position: int) -> None:
        self._relative_offsets.append(relative_offset)
        self._positions.append(position)

    def floor_position(self, relative_offset: int) -> int:
        """Where to start looking for an offset: the position of the greatest entry <= it, or the file's start."""
        slot = bisect_right(self._relative_offsets, relative_offset)
        return self._positions[slot - 1] if slot else 0

    def bracket(self, relative_offset: int) -> tuple[int, int]:
        """`floor_position` and the position of the entry after it (or -1): the search for an offset stays in between."""
        slot = bisect_right(self._relative_offsets, relative_offset)
        positions = self._positions
        return positions[slot - 1] if slot else 0, positions[slot] if slot < len(positions) else -1

    def last_batch_before(self, position: int) -> int:
        """The greatest position known to begin a batch that is <= `position`, or 0."""
        slot = bisect_right(self._positions, position)
        return self._positions[slot - 1] if slot else 0

    def offset_behind(self, position: int) -> int | None:
        """A relative offset that lies behind every batch that begins before `position`, if an entry tells one."""
        slot = bisect_left(self._positions, position)
        return self._relative_offsets[slot] if slot < len(self._relative_offsets) else None

    def truncate(self, relative_offset: int) -> None:
        """Forgets the entries at or above an offset."""
        slot = bisect_left(self._relative_offsets, relative_offset)
        del self._relative_offsets[slot:]
        del self._positions[slot:]

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._relative_offsets, self._positions, strict=True))

    def entries_before(self, position: int, count_max: int) -> list[tuple[int, int]]:
        """The last ones of them."""
        end = bisect_left(self._positions, position)
        start = max(end - count_max, 0)
        return list(zip(self._relative_offsets[start:end], self._positions[start:end], strict=True))


def _is_growing(values: "array[int]") -> bool:
    """Only the ends are compared, as Kafka does: a whole scan would cost more than the rebuild it prevents."""
    return not values or (values[0] >= 0 and (len(values) == 1 or values[0] < values[-1]))
