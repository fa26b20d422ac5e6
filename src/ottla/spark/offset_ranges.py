"""From start and end offsets to tasks: limits of one micro-batch, and ranges of about the same number of bytes.

Limits count offsets, or bytes, which are soft: a batch may be larger than the limit, and large limits are met by an
estimate. What is over the limit is divided among the partitions in proportion to what waits in each, as the official
connector does, so that no partition is starved.
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from ottla.base.types import Offset, TopicPartition
from ottla.spark.byte_profile import COUNTED_BYTES_MAX, BatchesFrom, ByteProfile, LookAt, count, measure, reach

Offsets = Mapping[TopicPartition, Offset]


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """One task's share: [start, end) of one partition."""

    partition: TopicPartition
    start: Offset
    end: Offset


class Sizes(Protocol):
    """Who can look into partitions."""

    def look_at(self, partition: TopicPartition) -> LookAt: ...

    def batches_from(self, partition: TopicPartition, wanted_bytes: float) -> BatchesFrom: ...


def limit_offsets(start: Offsets, end: Offsets, max_offsets: int | None) -> dict[TopicPartition, Offset]:
    waiting = sum(last - start[one] for one, last in end.items())
    if max_offsets is None or waiting <= max_offsets:
        return dict(end)
    share = max_offsets / waiting
    shares = {one: (last - start[one]) * share for one, last in end.items()}
    counts = {one: math.floor(of_one) for one, of_one in shares.items()}
    # What rounding down left goes first to those that got nothing: one with little would never get on.
    left = max_offsets - sum(counts.values())
    waiting_ones = [one for one, last in end.items() if start[one] + counts[one] < last]
    for one in sorted(waiting_ones, key=lambda one: (counts[one] > 0, counts[one] - shares[one]))[:left]:
        counts[one] += 1
    return {one: start[one] + counted for one, counted in counts.items()}


def limit_bytes(start: Offsets, end: Offsets, max_bytes: int, sizes: Sizes) -> dict[TopicPartition, Offset]:
    looks = {one: sizes.look_at(one) for one, last in end.items() if last > start[one]}
    profiles = {one: measure(start[one], end[one], look_at) for one, look_at in looks.items()}
    waiting_bytes = sum(profile.total_bytes for profile in profiles.values())
    is_counted = waiting_bytes > 0 and max_bytes <= COUNTED_BYTES_MAX
    if waiting_bytes <= max_bytes and not is_counted:
        return dict(end)
    cuts: dict[TopicPartition, Offset] = {}
    for one, profile in profiles.items():
        share_bytes = profile.total_bytes * max_bytes / waiting_bytes
        if not is_counted:
            cuts[one] = reach(profile, share_bytes, looks[one])
        elif share_bytes > 0:
            batches_from = sizes.batches_from(one, share_bytes)
            counted = count(start[one], end[one], share_bytes, batches_from, looks[one])
            cuts[one] = counted.offset_at(share_bytes)
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
