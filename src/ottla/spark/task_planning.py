"""Ranges of offsets to tasks of about the same number of bytes; on the driver, for batch and streaming queries."""

from typing import Final

from ottla.base.types import TopicPartition
from ottla.spark.byte_profile import COUNTED_BYTES_MAX, ByteProfile, count, flat_profile, joined, measure
from ottla.spark.offset_ranges import OffsetRange, Offsets, split
from ottla.spark.source_options import SourceOptions
from ottla.spark.topic_offsets import TopicOffsets

# A range so short that it fits into one task even with records of this size is not looked into: a micro-batch of a
# query that keeps up would otherwise be fetched twice.
LARGE_RECORD_BYTES: Final = 16 << 10


def plan_ranges(options: SourceOptions, topics: TopicOffsets, start: Offsets, end: Offsets) -> list[OffsetRange]:
    """[start, end) of every partition, in pieces; an empty one has none."""
    waiting = {one: last - start[one] for one, last in end.items() if last > start[one]}

    def profile(partition: TopicPartition) -> ByteProfile:
        first, last = start[partition], end[partition]
        is_short = waiting[partition] * LARGE_RECORD_BYTES <= options.max_bytes_per_task
        if is_short and options.min_partitions <= len(waiting):
            return flat_profile(first, last, LARGE_RECORD_BYTES)
        look_at = topics.look_at(partition)
        if options.max_bytes_per_task > COUNTED_BYTES_MAX:
            return measure(first, last, look_at)
        counted_bytes = COUNTED_BYTES_MAX / len(waiting)
        counted = count(first, last, counted_bytes, topics.batches_from(partition, counted_bytes), look_at)
        counted_up_to = counted.offsets[-1]
        return counted if counted_up_to == last else joined(counted, measure(counted_up_to, last, look_at))

    profiles = {partition: profile(partition) for partition in waiting}
    return split(profiles, min_ranges=options.min_partitions, max_bytes=options.max_bytes_per_task)
