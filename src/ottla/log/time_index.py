"""The sparse time index of a segment: how far the log had come when its largest timestamp was first this large.

In memory an int64 and an int32 array; on disk Kafka's `.timeindex`, big-endian (timestamp int64, relative offset
int32), trimmed to size. Timestamps grow strictly: an entry (t, o) says that no batch before the one that ends at offset
o has a timestamp of t or above, so a search for t may start there, however disordered the producers' clocks are.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

from ottla.base.types import NO_TIMESTAMP, TimestampMs

ENTRY_BYTES: Final = 12
_SWAPPED: Final = sys.byteorder == "little"


class TimeEntry(NamedTuple):
    timestamp: TimestampMs
    relative_offset: int


class TimeIndex:
    __slots__ = ("_relative_offsets", "_timestamps")

    def __init__(self) -> None:
        self._timestamps = array("q")
        self._relative_offsets = array("i")

    def __len__(self) -> int:
        return len(self._relative_offsets)

    @classmethod
    def decode(cls, data: bytes) -> "TimeIndex":
        """`ValueError` for bytes that are not a sane index: it is rebuilt from the log then."""
        if len(data) % ENTRY_BYTES:
            raise ValueError(f"{len(data)} bytes are not a multiple of {ENTRY_BYTES}")
        words = array("i", data)  # Three int32 an entry: both halves of the timestamp, the offset.
        halves = array("i", bytes(len(words) // 3 * 8))
        halves[0::2] = words[0::3]
        halves[1::2] = words[1::3]
        index = cls()
        index._timestamps.frombytes(halves.tobytes())
        index._relative_offsets = words[2::3]
        if _SWAPPED:
            index._timestamps.byteswap()
            index._relative_offsets.byteswap()
        timestamps = index._timestamps
        if len(timestamps) > 1 and timestamps[0] >= timestamps[-1]:
            raise ValueError("entries do not grow")
        if timestamps and index._relative_offsets[-1] < 0:
            raise ValueError("an entry lies before the segment")
        return index

    def encode(self) -> bytes:
        count = len(self._relative_offsets)  # The loop may append meanwhile; timestamps are appended first.
        timestamps, relative_offsets = self._timestamps[:count], self._relative_offsets[:count]
        if _SWAPPED:
            timestamps.byteswap()
            relative_offsets.byteswap()
        halves = array("i", timestamps.tobytes())
        words = array("i", bytes(count * ENTRY_BYTES))
        words[0::3] = halves[0::2]
        words[1::3] = halves[1::2]
        words[2::3] = relative_offsets
        return words.tobytes()

    @property
    def last(self) -> TimeEntry:
        if not self._timestamps:
            return TimeEntry(NO_TIMESTAMP, 0)
        return TimeEntry(self._timestamps[-1], self._relative_offsets[-1])

    def maybe_append(self, timestamp: TimestampMs, relative_offset: int) -> bool:
        """Adds an entry unless the largest timestamp is still the one already there."""
        if timestamp <= (self._timestamps[-1] if self._timestamps else NO_TIMESTAMP):
            return False
        self._timestamps.append(timestamp)
        self._relative_offsets.append(relative_offset)
        return True

    def floor_offset(self, timestamp: TimestampMs) -> int:
        """From which relative offset on to look for the first record at or after `timestamp`."""
        slot = bisect_right(self._timestamps, timestamp)
        return self._relative_offsets[slot - 1] if slot else 0

    def truncate(self, relative_offset: int) -> None:
        """Forgets the entries at or above an offset."""
        slot = bisect_left(self._relative_offsets, relative_offset)
        del self._timestamps[slot:]
        del self._relative_offsets[slot:]

    def entries(self) -> list[TimeEntry]:
        return [TimeEntry(*entry) for entry in zip(self._timestamps, self._relative_offsets, strict=True)]
