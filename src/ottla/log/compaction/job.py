"""What a cleaner is told and what it answers: plain values, so that they can be sent to another process."""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.base.types import Offset, ProducerId, TimestampMs
from ottla.log.compaction.last_batches import LastOfProducer
from ottla.log.transaction_index import AbortedTransaction


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSegment:
    base_offset: Offset
    size_bytes: int
    end_offset: Offset  # The base offset of the one behind it.


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningJob:
    directory: str
    segments: tuple[SourceSegment, ...]  # Everything that may be touched, from the first of the log on.
    first_dirty_offset: Offset
    aborted: tuple[AbortedTransaction, ...]
    producers: Mapping[ProducerId, LastOfProducer]
    now_ms: TimestampMs
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    buffer_bytes: int
    bytes_per_second_max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedSegment:
    """One new segment, synced, its files called `.cleaned`, in place of those from `base_offset` to `end_offset`."""

    base_offset: Offset
    end_offset: Offset
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningDone:
    """The end of a pass: from `cleaned_end_offset` on the log is dirty."""

    cleaned_end_offset: Offset
    read_bytes: int
    written_bytes: int
