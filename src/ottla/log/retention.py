"""Which segments may go: pure decisions over a partition's segments, oldest first, whole segments only.

A segment goes when its newest record is older than `retention.ms`, when the log without it still has `retention.bytes`,
or when everything in it lies below the log start offset. Nothing at or above the high watermark ever goes.
"""

from collections.abc import Callable, Sequence
from itertools import takewhile

from ottla.base.types import Offset, TimestampMs
from ottla.log.config import LogConfig
from ottla.log.segment import Segment


def plan_retention(
    segments: Sequence[Segment],
    config: LogConfig,
    *,
    now_ms: TimestampMs,
    log_start_offset: Offset,
    log_end_offset: Offset,
    high_watermark: Offset,
) -> list[Segment]:
    """The segments to delete, a prefix of all. The active one may be among them: it is rolled first then."""
    next_offsets = [segment.base_offset for segment in segments[1:]] + [log_end_offset]
    ends = dict(zip((segment.base_offset for segment in segments), next_offsets, strict=True))
    removable = list(takewhile(lambda segment: ends[segment.base_offset] <= high_watermark, segments))
    if removable and removable[-1] is segments[-1] and segments[-1].size == 0:
        removable.pop()  # An empty active segment has nothing to give.
    counts = [_prefix(removable, lambda segment: ends[segment.base_offset] <= log_start_offset)]
    if config.deletes and config.retention_ms >= 0:
        oldest_ms = now_ms - config.retention_ms
        counts.append(_prefix(removable, lambda segment: segment.largest_timestamp() < oldest_ms))
    if config.deletes and config.retention_bytes >= 0:
        counts.append(_count_over_size(removable, sum(s.size for s in segments) - config.retention_bytes))
    return removable[: max(counts)]


def _prefix(segments: Sequence[Segment], may_go: Callable[[Segment], bool]) -> int:
    return sum(1 for _ in takewhile(may_go, segments))


def _count_over_size(segments: Sequence[Segment], excess_bytes: int) -> int:
    count = 0
    for segment in segments:
        excess_bytes -= segment.size
        if excess_bytes < 0:
            break
        count += 1
    return count
