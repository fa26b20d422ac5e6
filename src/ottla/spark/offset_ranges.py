"""From start and end offsets to tasks: limits of one micro-batch, and ranges of about the same number of bytes.

Limits count offsets or estimated bytes; both are soft. What is over the limit is divided among the partitions in
proportion to what waits in each, as the official connector does, so that no partition is starved.
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla.base.types import Offset, TopicPartition

Offsets = Mapping[TopicPartition, Offset]

BYTES_PER_OFFSET_UNKNOWN: Final = 1024.0


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """One task's share: [start, end) of one partition."""

    partition: TopicPartition
    start: Offset
    end: Offset


def limit_offsets(start: Offsets, end: Offsets, max_offsets: int | None) -> dict[TopicPartition, Offset]:
    return _limit(start, end, max_offsets, {})


def limit_bytes(
    start: Offsets, end: Offsets, max_bytes: int | None, bytes_per_offset: Mapping[TopicPartition, float]
) -> dict[TopicPartition, Offset]:
    known = [*bytes_per_offset.values()] or [BYTES_PER_OFFSET_UNKNOWN]
    mean = sum(known) / len(known)
    return _limit(start, end, max_bytes, {one: bytes_per_offset.get(one, mean) for one in end})


def _limit(
    start: Offsets, end: Offsets, most: int | None, weights: Mapping[TopicPartition, float]
) -> dict[TopicPartition, Offset]:
    waiting = {one: (end[one] - start.get(one, end[one])) * weights.get(one, 1.0) for one in end}
    total = sum(waiting.values())
    if most is None or total <= most:
        return dict(end)
    share = most / total
    limited: dict[TopicPartition, Offset] = {}
    for one, last in end.items():
        first = start.get(one, last)
        # Rounded up, or a partition with little would never get on.
        limited[one] = min(last, first + math.ceil((last - first) * share))
    return limited


def split(
    start: Offsets,
    end: Offsets,
    *,
    min_ranges: int,
    max_bytes: int,
    bytes_per_offset: Mapping[TopicPartition, float],
) -> list[OffsetRange]:
    """Ranges of at most about `max_bytes`, and at least `min_ranges` where there are as many offsets."""
    sizes = {
        one: (last - start[one]) * bytes_per_offset.get(one, BYTES_PER_OFFSET_UNKNOWN)
        for one, last in end.items()
        if last > start[one]
    }
    total = sum(sizes.values())
    if total <= 0:
        return []
    piece_bytes = min(max_bytes, total / min_ranges)
    ranges: list[OffsetRange] = []
    for one, size in sizes.items():
        first, last = start[one], end[one]
        pieces = min(max(1, math.ceil(size / piece_bytes - 1e-9)), last - first)
        edges = [first + (last - first) * number // pieces for number in range(pieces + 1)]
        ranges += [OffsetRange(one, low, high) for low, high in itertools.pairwise(edges)]
    return ranges
