"""How many bytes lie between two offsets, about: found by looking at few places, because no request tells it.

A partition's size by its span of offsets would be wrong where it matters: compaction leaves gaps, compression and
record sizes change over time. So a range is looked into: a small fetch at an offset shows the batches from there on,
that is, bytes per offset seen. Where two neighbouring looks agree, what is between is taken to be alike; where they do
not, the middle is looked at, too. A few large records between two looks stay unseen, and to a small limit they are many
times its size: what is short enough is therefore read through and counted. Pure but for the functions that look.
"""

import bisect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.base.types import Offset

HALVINGS_MIN: Final = 3  # Eight places at least: two looks that agree by chance must not speak for everything.
HALVINGS_MAX: Final = 7
ALIKE: Final = 1.2  # Densities that differ by less are taken for the same.
ZOOMS_MAX: Final = 8
ZOOMED_ENOUGH: Final = 0.25
COUNTED_BYTES_MAX: Final = 32 << 20
"""So much is read through for one plan at most. Limits up to it are kept whatever the records' sizes are."""


@dataclass(frozen=True, slots=True)
class Look:
    """Batches as they were seen from an offset on: [start, end) in `size_bytes`."""

    start: Offset
    end: Offset
    size_bytes: int

    @property
    def bytes_per_offset(self) -> float:
        return self.size_bytes / max(1, self.end - self.start)


LookAt = Callable[[Offset], Look]
BatchesFrom = Callable[[Offset], Sequence[Look]]
"""The next batches from an offset on, each a look of its own; none where there is nothing."""


@dataclass(frozen=True, slots=True)
class ByteProfile:
    """Straight lines between points: `offsets` ascending, `bytes_before` the bytes from the first of them on."""

    offsets: list[Offset]
    bytes_before: list[float]

    @property
    def total_bytes(self) -> float:
        return self.bytes_before[-1]

    def offset_at(self, size_bytes: float) -> Offset:
        """Up to where that many bytes reach; one offset at least, and never past the end."""
        first, end = self.offsets[0], self.offsets[-1]
        index = bisect.bisect_left(self.bytes_before, size_bytes)
        if index >= len(self.offsets):
            return end
        low, high = self.offsets[max(index - 1, 0)], self.offsets[index]
        before, after = self.bytes_before[max(index - 1, 0)], self.bytes_before[index]
        share = (size_bytes - before) / (after - before) if after > before else 0.0
        return min(end, max(first + 1, low + math.ceil((high - low) * share)))


def flat_profile(start: Offset, end: Offset, bytes_per_offset: float) -> ByteProfile:
    return ByteProfile([start, end], [0.0, (end - start) * bytes_per_offset])


def measure(start: Offset, end: Offset, look_at: LookAt) -> ByteProfile:
    """Of a range that is not empty."""
    profile = ByteProfile([start], [0.0])
    first = look_at(start)
    last = first if first.end >= end else look_at(end - 1)
    _measure_into(profile, start, end, first, last, look_at, halvings=0)
    return profile


def count(start: Offset, end: Offset, max_bytes: float, batches_from: BatchesFrom, look_at: LookAt) -> ByteProfile:
    """Batch by batch, up to the end or to where `max_bytes` are reached. Only behind what cannot be read it estimates."""
    profile = ByteProfile([start], [0.0])
    while profile.offsets[-1] < end and profile.total_bytes < max_bytes:
        found = [batch for batch in batches_from(profile.offsets[-1]) if batch.end > profile.offsets[-1]]
        if not found:
            return joined(profile, measure(profile.offsets[-1], end, look_at))
        for batch in found:
            low, high = max(batch.start, profile.offsets[-1]), min(batch.end, end)
            if low < end:
                _extend(profile, high, (high - low) * batch.bytes_per_offset)
            else:
                _extend(profile, end, 0.0)
                break
    return profile


def joined(one: ByteProfile, following: ByteProfile) -> ByteProfile:
    """`following` begins where `one` ends."""
    bytes_before = [one.total_bytes + size_bytes for size_bytes in following.bytes_before[1:]]
    return ByteProfile([*one.offsets, *following.offsets[1:]], [*one.bytes_before, *bytes_before])


def _measure_into(
    profile: ByteProfile, low: Offset, high: Offset, at_low: Look, at_high: Look, look_at: LookAt, halvings: int
) -> None:
    middle = (low + high) // 2
    if at_low.end >= high or middle == low:
        _extend(profile, high, (high - low) * at_low.bytes_per_offset)
    elif halvings == HALVINGS_MAX or (halvings >= HALVINGS_MIN and _alike(at_low, at_high)):
        _extend(profile, high, (high - low) * (at_low.bytes_per_offset + at_high.bytes_per_offset) / 2)
    else:
        at_middle = look_at(middle)
        _measure_into(profile, low, middle, at_low, at_middle, look_at, halvings + 1)
        _measure_into(profile, middle, high, at_middle, at_high, look_at, halvings + 1)


def _extend(profile: ByteProfile, offset: Offset, size_bytes: float) -> None:
    profile.offsets.append(offset)
    profile.bytes_before.append(profile.total_bytes + size_bytes)


def _alike(one: Look, other: Look) -> bool:
    low, high = sorted((one.bytes_per_offset, other.bytes_per_offset))
    return high <= low * ALIKE


def reach(profile: ByteProfile, size_bytes: float, look_at: LookAt) -> Offset:
    """`offset_at`, looked at more closely when it lies near the beginning of a long range."""
    start, end = profile.offsets[0], profile.offsets[-1]
    for _ in range(ZOOMS_MAX):
        cut, seen_up_to = profile.offset_at(size_bytes), profile.offsets[-1]
        is_past = cut == seen_up_to and seen_up_to < end
        if not is_past and cut - start >= (seen_up_to - start) * ZOOMED_ENOUGH:
            return cut
        profile = measure(start, min(end, start + 2 * (cut - start)), look_at)
    return profile.offset_at(size_bytes)
