"""From start and end offsets to tasks: limits of one micro-batch, and ranges of about the same number of bytes.

Limits count offsets or estimated bytes; both are soft. What is over the limit is divided among the partitions in
proportion to what waits in each, as the official connector does, so that no partition is starved.
"""

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ottla.base.types import Offset, TopicPartition
from ottla.spark.byte_profile import ByteProfile, LookAt, measure, reach

Offsets = Mapping[TopicPartition, Offset]


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """One task's share: [start, end) of one partition."""

    partition: TopicPartition
    start: Offset
    end: Offset


def limit_offsets(start: Offsets, end: Offsets, max_offsets: int | None) -> dict[TopicPartition, Offset]:
    waiting = sum(last - start[one] for one, last in end.items())
    if max_offsets is None or waiting <= max_offsets:
        return dict(end)
    share = max_offsets / waiting
    # Rounded up, or a partition with little would never get on.
    return {one: start[one] + math.ceil((last - start[one]) * share) for one, last in end.items()}


def limit_bytes(
    start: Offsets, end: Offsets, max_bytes: int, look_at: Callable[[TopicPartition], LookAt]
) -> dict[TopicPartition, Offset]:
    profiles = {one: measure(start[one], last, look_at(one)) for one, last in end.items() if last > start[one]}
    waiting_bytes = sum(profile.total_bytes for profile in profiles.values())
    if waiting_bytes <= max_bytes:
        return dict(end)
    share = max_bytes / waiting_bytes
    cuts = {one: reach(profile, profile.total_bytes * share, look_at(one)) for one, profile in profiles.items()}
    return {**end, **cuts}


def split(profiles: Mapping[TopicPartition, ByteProfile], *, min_ranges: int, max_bytes: int) -> list[OffsetRange]:
    """Ranges of at most about `max_bytes`, and at least `min_ranges` where there are as many offsets."""
    total_bytes = sum(profile.total_bytes for profile in profiles.values())
    piece_bytes = max(1.0, min(max_bytes, total_bytes / min_ranges))
    ranges: list[OffsetRange] = []
    for one, profile in profiles.items():
        first, last = profile.offsets[0], profile.offsets[-1]
        pieces = max(1, min(math.ceil(profile.total_bytes / piece_bytes - 1e-9), last - first))
        inner = (profile.offset_at(profile.total_bytes * number / pieces) for number in range(1, pieces))
        edges = sorted({first, *inner, last})
        ranges += [OffsetRange(one, low, high) for low, high in itertools.pairwise(edges)]
    return ranges
