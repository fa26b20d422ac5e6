"""The segments of a partition in offset order: never empty, the last one active.

Segment boundaries are the only index over the whole log: a segment holds the offsets from its base to the next base.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence

from ottla.base.errors import invariant
from ottla.base.types import Offset
from ottla.log.segment import BatchPlace, Segment


class SegmentList:
    __slots__ = ("_base_offsets", "_segments", "active")

    def __init__(self, segments: list[Segment]) -> None:
        self._replace(segments)

    def _replace(self, segments: list[Segment]) -> None:
        invariant(segments, "a log has an active segment")
        self._segments = segments
        self._base_offsets = [segment.base_offset for segment in segments]
        self.active = segments[-1]

    def __iter__(self) -> Iterator[Segment]:
        return iter(list(self._segments))

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def first(self) -> Segment:
        return self._segments[0]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    def from_offset(self, offset: Offset) -> list[Segment]:
        """The segment with `offset` and all after it."""
        return self._segments[max(bisect_right(self._base_offsets, offset) - 1, 0) :]

    def floor(self, offset: Offset) -> Segment:
        """The last segment that begins at or before `offset`."""
        return self._segments[max(bisect_right(self._base_offsets, offset) - 1, 0)]

    def between(self, base_offset: Offset, end_offset: Offset) -> list[Segment] | None:
        """The sealed segments that hold exactly these offsets; `None` where no segment begins at one of both."""
        base_offsets = self._base_offsets
        if base_offset not in base_offsets or end_offset not in base_offsets:
            return None
        return self._segments[base_offsets.index(base_offset) : base_offsets.index(end_offset)]

    def find(self, offset: Offset) -> tuple[Segment, BatchPlace] | None:
        """The first batch that holds `offset` or anything after it. Goes on to the next segment where one ends early
        (compaction leaves gaps), so that a reader never stands still."""
        active = self.active
        if offset >= active.base_offset:
            place = active.find(offset)
            return None if place is None else (active, place)
        for segment in self.from_offset(offset):
            place = segment.find(offset)
            if place is not None:
                return segment, place
        return None

    def end_position(self, segment: Segment, up_to_offset: Offset) -> int:
        """Where in `segment` the bytes below an offset end."""
        if segment is not self.active:
            following = self._base_offsets[bisect_right(self._base_offsets, segment.base_offset)]
            if following <= up_to_offset:
                return segment.size
        return segment.position_of(up_to_offset)

    def add(self, segment: Segment) -> None:
        """A new active segment; the one before it is sealed."""
        invariant(segment.base_offset > self.active.base_offset, "segments grow", base_offset=segment.base_offset)
        self.active.is_sealed = True
        self.active.forget_recent()
        self._replace([*self._segments, segment])

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """One segment for its sealed neighbours, of which the first has its base offset."""
        invariant(self.active not in old, "the active segment stays")
        first = self._base_offsets.index(new.base_offset)
        invariant(
            self._segments[first : first + len(old)] == list(old), "neighbours, in order", base_offset=new.base_offset
        )
        self._replace([*self._segments[:first], new, *self._segments[first + len(old) :]])

    def remove(self, segments: Collection[Segment]) -> None:
        self._replace([segment for segment in self._segments if segment not in segments])
        self.active.is_sealed = False
