"""One pass of compaction over a log, step by step as a broker does it, without a broker."""

from ottla.base.disk import Disk
from ottla.log.compaction.clean import clean
from ottla.log.compaction.job import CleanedSegment, CleaningDone
from ottla.log.compaction.plan import aborted_before, find_cleanable, first_dirty_offset, job_of
from ottla.log.partition_log import PartitionLog


def compact(
    log: PartitionLog, disk: Disk, *, now_ms: int, cleaned_end_offset: int | None = None, buffer_bytes: int = 1 << 20
) -> CleaningDone | None:
    """`None` where nothing is to be cleaned."""
    segments = list(log.segments)
    cleanable = find_cleanable(
        segments,
        log.config,
        first_dirty_offset=first_dirty_offset(log, cleaned_end_offset),
        limit=min(log.last_stable_offset(log.durable_end_offset), log.recovery_point),
        now_ms=now_ms,
    )
    if cleanable is None:
        return None
    job = job_of(
        log,
        cleanable,
        aborted=aborted_before(segments, cleanable.end_offset),
        now_ms=now_ms,
        buffer_bytes=buffer_bytes,
        bytes_per_second_max=1e300,
    )
    for result in clean(disk, job):
        if isinstance(result, CleaningDone):
            return result
        swap(log, result)
    raise AssertionError("a pass ends with CleaningDone")


def swap(log: PartitionLog, cleaned: CleanedSegment) -> None:
    replaced = log.segments.between(cleaned.base_offset, cleaned.end_offset)
    assert replaced
    segment = log.prepare_swap(cleaned)
    log.complete_swap(replaced, segment)
    log.finish_swap(replaced, segment)
