"""Whether a log is to be cleaned now, and how far: Kafka's rules, over the segments' sizes and timestamps.

Never cleaned: the active segment, what is not synced, what lies at or above the last stable offset, and segments with a
record younger than `min.compaction.lag.ms`. Worth it: when the dirty share of the bytes exceeds
`min.cleanable.dirty.ratio`, or something dirty is older than `max.compaction.lag.ms`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ottla.base.errors import ProtocolError
from ottla.base.types import Offset, TimestampMs
from ottla.log import file_names
from ottla.log.batch_scan import scan_headers
from ottla.log.compaction.job import CleaningJob, SourceSegment
from ottla.log.compaction.last_batches import LastOfProducer
from ottla.log.config import LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.log.producer_state import ProducerState
from ottla.log.segment import Segment
from ottla.log.transaction_index import AbortedTransaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanable:
    """What of a log may be cleaned."""

    segments: tuple[Segment, ...]  # From the first of the log on.
    end_offset: Offset  # Of the last of them.
    first_dirty_offset: Offset
    dirty_share: float
    is_overdue: bool

    def is_due(self, config: LogConfig) -> bool:
        return self.is_overdue or self.dirty_share > config.min_cleanable_dirty_ratio


def first_dirty_offset(log: PartitionLog, cleaned_end_offset: Offset | None) -> Offset:
    """Where the last pass ended. A checkpoint that cannot be of this log counts for nothing."""
    if cleaned_end_offset is None or not log.log_start_offset <= cleaned_end_offset <= log.log_end_offset:
        return log.log_start_offset
    return cleaned_end_offset


def find_cleanable(
    segments: Sequence[Segment], config: LogConfig, *, first_dirty_offset: Offset, limit: Offset, now_ms: TimestampMs
) -> Cleanable | None:
    """May block: timestamps are read once. `limit`: the last stable offset, or the recovery point if that is less.
    `ProtocolError` for a log that cannot be read."""
    ends = [segment.base_offset for segment in segments[1:]]
    cleanable: list[Segment] = []
    for segment, end_offset in zip(segments, ends, strict=False):  # The active segment is left out.
        if end_offset > limit or (end_offset > first_dirty_offset and _is_too_young(segment, config, now_ms)):
            break
        cleanable.append(segment)
    if not cleanable or ends[len(cleanable) - 1] <= first_dirty_offset:
        return None
    dirty = [
        segment
        for segment, end_offset in zip(cleanable, ends, strict=False)
        if segment.size and end_offset > first_dirty_offset
    ]
    dirty_bytes = sum(segment.size for segment in dirty)
    return Cleanable(
        segments=tuple(cleanable),
        end_offset=ends[len(cleanable) - 1],
        first_dirty_offset=max(first_dirty_offset, cleanable[0].base_offset),
        dirty_share=dirty_bytes / max(1, sum(segment.size for segment in cleanable)),
        is_overdue=any(_is_overdue(segment, config, now_ms) for segment in dirty),
    )


def _is_too_young(segment: Segment, config: LogConfig, now_ms: TimestampMs) -> bool:
    lag_ms = config.min_compaction_lag_ms
    return lag_ms > 0 and segment.largest_timestamp() > now_ms - lag_ms


def _is_overdue(segment: Segment, config: LogConfig, now_ms: TimestampMs) -> bool:
    """By its first batch, as Kafka has it."""
    due_ms = now_ms - config.max_compaction_lag_ms
    if due_ms <= 0:
        return False
    first = next(scan_headers(segment.handle(), 0, segment.size), None)
    if first is None:
        raise ProtocolError(f"{segment.path(file_names.LOG)}: no batch begins at 0")
    return 0 < first.header.max_timestamp < due_ms


def last_of_producers(state: ProducerState) -> dict[int, LastOfProducer]:
    return {
        producer_id: LastOfProducer(producer.batches[-1].last_offset if producer.batches else -1, producer.epoch)
        for producer_id, producer in state.producers.items()
    }


def aborted_before(segments: Sequence[Segment], end_offset: Offset) -> list[AbortedTransaction]:
    """Blocking. Aborted transactions that began before an offset, wherever in the log their markers are."""
    return [
        aborted
        for segment in segments
        for aborted in segment.aborted_transactions()
        if aborted.first_offset < end_offset
    ]


def job_of(
    log: PartitionLog,
    cleanable: Cleanable,
    *,
    aborted: Sequence[AbortedTransaction],
    now_ms: TimestampMs,
    buffer_bytes: int,
    bytes_per_second_max: float,
) -> CleaningJob:
    ends = [*(segment.base_offset for segment in cleanable.segments[1:]), cleanable.end_offset]
    config = log.config
    return CleaningJob(
        directory=log.directory,
        segments=tuple(
            SourceSegment(base_offset=segment.base_offset, size_bytes=segment.size, end_offset=end_offset)
            for segment, end_offset in zip(cleanable.segments, ends, strict=True)
        ),
        first_dirty_offset=cleanable.first_dirty_offset,
        aborted=tuple(aborted),
        producers=last_of_producers(log.producer_state),
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        buffer_bytes=buffer_bytes,
        bytes_per_second_max=bytes_per_second_max,
    )
