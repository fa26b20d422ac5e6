"""Offsets by timestamp, for ListOffsets: the time index narrows it down, the one batch found is read record by record.

The answer is the first offset whose record is at or after the time asked for, in log order: clocks of producers
disagree (CreateTime), so a later offset may well be earlier in time. Blocking: it reads, and decompresses one batch.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.base.types import LeaderEpoch, Offset, TimestampMs
from ottla.log.batch_scan import scan_headers
from ottla.log.segment import TIMESTAMP_NOT_READ, Segment
from ottla.wire.records import latest_record, shapes_of


class TimestampedOffset(NamedTuple):
    offset: Offset
    timestamp: TimestampMs
    leader_epoch: LeaderEpoch


def first_at_or_after(
    segments: Sequence[Segment], timestamp: TimestampMs, log_start_offset: Offset
) -> TimestampedOffset | None:
    for segment in segments:
        if segment.size and _max_timestamp(segment) >= timestamp:
            found = _first_in_segment(segment, timestamp, log_start_offset)
            if found is not None:
                return found
    return None


def latest(segments: Sequence[Segment]) -> TimestampedOffset | None:
    """The record with the largest timestamp of all, the first of several."""
    holders = [segment for segment in segments if segment.size and _max_timestamp(segment) >= 0]
    best: TimestampedOffset | None = None
    for segment in sorted(holders, key=lambda holder: -holder.max_timestamp):
        if best is not None and best.timestamp >= segment.max_timestamp:
            break
        found = _latest_in_segment(segment)
        if found is not None and (best is None or found.timestamp > best.timestamp):
            best = found
    return best


def _latest_in_segment(segment: Segment) -> TimestampedOffset | None:
    file = segment.handle()
    place = segment.find(segment.max_timestamp_offset)
    start = 0 if place is None else place.position
    first = next(scan_headers(file, start, segment.size), None)
    if first is None or not first.header.record_count:
        # Compaction took the records of that batch and left its timestamp: all others are looked at.
        filled = [batch for batch in scan_headers(file, 0, segment.size) if batch.header.record_count]
        first = max(filled, key=lambda batch: batch.header.max_timestamp, default=None)
    if first is None:
        return None
    record = latest_record(file.pread(first.header.size_bytes, first.position))
    return TimestampedOffset(record.offset, record.timestamp, first.header.partition_leader_epoch) if record else None


def _max_timestamp(segment: Segment) -> TimestampMs:
    if segment.max_timestamp == TIMESTAMP_NOT_READ:
        segment.largest_timestamp()
    return segment.max_timestamp


def _first_in_segment(segment: Segment, timestamp: TimestampMs, log_start_offset: Offset) -> TimestampedOffset | None:
    offset_index, time_index = segment.indexes()
    from_offset = max(time_index.floor_offset(timestamp), log_start_offset - segment.base_offset)
    file = segment.handle()
    for position, header in scan_headers(file, offset_index.floor_position(from_offset), segment.size):
        if header.max_timestamp < timestamp or header.last_offset < log_start_offset:
            continue
        for record in shapes_of(file.pread(header.size_bytes, position)):
            if record.timestamp >= timestamp and record.offset >= log_start_offset:
                return TimestampedOffset(record.offset, record.timestamp, header.partition_leader_epoch)
    return None
