"""The state of one partition's log, and reading it. Appending and upkeep build on this (appendable_log, partition_log).

Two ends: records below `log_end_offset` are in the log; those below `durable_end_offset` are as durable as the topic's
configuration promises, and watermarks and acknowledgements go by that one. Below `recovery_point` all is synced.
Reads do not block where `is_cached` says so; any other read is for a worker thread, and may run beside appends.
"""

from contextlib import suppress
from typing import NamedTuple

from ottla.base.disk import Disk, File
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NO_EPOCH, LeaderEpoch, Offset, TimestampMs, TopicId, TopicPartition
from ottla.log import timestamp_lookup
from ottla.log.config import LogConfig
from ottla.log.epoch_cache import EpochEnd
from ottla.log.handles import HandleCache
from ottla.log.producer_state import ProducerState
from ottla.log.recovery import LoadedLog
from ottla.log.segment import BatchPlace, Segment, SegmentReplaced
from ottla.log.segment_list import SegmentList
from ottla.log.timestamp_lookup import TimestampedOffset
from ottla.log.transaction_index import AbortedTransaction, aborted_between


class LogSlice(NamedTuple):
    """A region of one segment file, to be sent as it is; it may end inside a batch. Holding it keeps the file open.

    The batch with the offset asked for comes first. `is_recent`: surely in the page cache, so no thread is needed.
    """

    file: File | None  # None only where `size` is 0.
    position: int
    size: int
    first_offset: Offset
    is_recent: bool


class ReadableLog:
    __slots__ = (
        "_disk",
        "_handles",
        "config",
        "directory",
        "durable_end_offset",
        "epochs",
        "log_end_offset",
        "log_start_offset",
        "producer_state",
        "recovery_point",
        "segments",
        "snapshots",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        handles: HandleCache,
        loaded: LoadedLog,
    ) -> None:
        """From what recovery has found; `PartitionLog.open` is how to get one."""
        self._disk = disk
        self._handles = handles
        self.config = config
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id: TopicId | None = loaded.topic_id
        self.epochs = loaded.epochs
        self.snapshots = loaded.snapshots
        self.producer_state: ProducerState = loaded.producer_state
        self.segments = SegmentList(loaded.segments)
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.durable_end_offset = loaded.log_end_offset
        self.recovery_point = loaded.recovery_point

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.topic_partition}, {self.log_start_offset}..{self.log_end_offset})"

    @property
    def active_segment(self) -> Segment:
        return self.segments.active

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    def read(
        self, offset: Offset, max_bytes: int, *, up_to_offset: Offset | None = None, min_one_batch: bool = True
    ) -> LogSlice:
        """The region from the batch with `offset` on, below `up_to_offset`, of one segment.

        With `min_one_batch` a first batch larger than `max_bytes` is still returned whole: a reader with a small limit
        would never get past it otherwise.
        """
        end_offset = self.log_end_offset
        if not self.log_start_offset <= offset <= end_offset:
            raise self._out_of_range(offset)
        if up_to_offset is None or up_to_offset > end_offset:
            up_to_offset = end_offset
        if offset >= up_to_offset:
            return LogSlice(None, 0, 0, offset, True)
        try:
            found = self.segments.find(offset)
            if found is None:
                return LogSlice(None, 0, 0, offset, True)
            segment, place = found
            if up_to_offset == end_offset:
                limit = segment.size
            else:
                limit = self.segments.end_position(segment, up_to_offset)
            return _slice(segment, limit, place, max_bytes, min_one_batch)
        except SegmentReplaced:
            return self.read(offset, max_bytes, up_to_offset=up_to_offset, min_one_batch=min_one_batch)
        except FileNotFoundError:
            if offset < self.log_start_offset:  # Retention has overtaken this reader in its thread.
                raise self._out_of_range(offset) from None
            raise

    def read_committed(
        self, offset: Offset, max_bytes: int, *, up_to_offset: Offset, min_one_batch: bool = True
    ) -> tuple[LogSlice, list[AbortedTransaction]]:
        """As `read`, with the aborted transactions that a reader passes over in what it gets, and perhaps a few more."""
        before = self.segments.from_offset(offset)
        with suppress(SegmentReplaced):
            found = self.read(offset, max_bytes, up_to_offset=up_to_offset, min_one_batch=min_one_batch)
            aborted = self._aborted_in(found, offset, up_to_offset) if found.size else []
            if not any(segment.is_replaced for segment in before):
                return found, aborted
        # Compaction came in between: the slice may be of the old segments and the transactions of the new ones.
        return self.read_committed(offset, max_bytes, up_to_offset=up_to_offset, min_one_batch=min_one_batch)

    def _aborted_in(self, found: LogSlice, offset: Offset, up_to_offset: Offset) -> list[AbortedTransaction]:
        segments = self.segments.from_offset(found.first_offset)
        behind = segments[0].offset_behind(found.position + found.size)
        if behind is None and len(segments) > 1:
            behind = segments[1].base_offset
        if behind is not None:
            up_to_offset = min(behind, up_to_offset)
        return aborted_between(segments, offset, up_to_offset)

    def are_aborted_cached(self, offset: Offset) -> bool:
        """Whether `read_committed(offset)` needs no disk to tell what was aborted."""
        return all(segment.knows_aborted for segment in self.segments.from_offset(offset))

    def _out_of_range(self, offset: Offset) -> ApiError:
        return ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} of {self.topic_partition} is not in {self.log_start_offset}..{self.log_end_offset}",
        )

    def is_cached(self, offset: Offset) -> bool:
        """Whether `read(offset)` would not wait for the disk, as far as that can be told without waiting."""
        return self.is_recent(offset) or self.segments.floor(offset).is_lookup_cached(offset)

    def is_recent(self, offset: Offset) -> bool:
        """Whether `read(offset)` needs no disk: at the end, or a batch appended a moment ago."""
        return offset >= self.log_end_offset or self.segments.active.has_recent(offset)

    def offset_for_timestamp(self, timestamp: TimestampMs) -> TimestampedOffset | None:
        """Blocking. The first record at or after a time."""
        try:
            return timestamp_lookup.first_at_or_after(list(self.segments), timestamp, self.log_start_offset)
        except SegmentReplaced:
            return self.offset_for_timestamp(timestamp)

    def offset_of_max_timestamp(self) -> TimestampedOffset | None:
        """Blocking. The record with the largest timestamp."""
        try:
            return timestamp_lookup.latest(list(self.segments))
        except SegmentReplaced:
            return self.offset_of_max_timestamp()

    @property
    def latest_epoch(self) -> LeaderEpoch:
        return self.epochs.latest_epoch

    @property
    def last_record_epoch(self) -> LeaderEpoch:
        """Of the leader who wrote the last record: what a follower has, whoever led since; -1 with no record."""
        if self.log_end_offset == self.log_start_offset:
            return NO_EPOCH
        return self.epochs.epoch_of(self.log_end_offset - 1)

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> EpochEnd:
        return self.epochs.end_of(epoch, self.log_end_offset)

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """Up to where (exclusive) every transaction is decided, and the decision replicated."""
        unstable = self.producer_state.first_unstable_offset(high_watermark)
        if unstable is None:
            return high_watermark
        return min(high_watermark, max(unstable, self.log_start_offset))


def _slice(segment: Segment, limit: int, place: BatchPlace, max_bytes: int, min_one_batch: bool) -> LogSlice:
    position, first_batch_bytes, first_offset, is_recent = place
    size = limit - position
    if size > max_bytes:
        # A batch that is cut off is sent again with the next read: what is sent ends with a whole one, where we know.
        size = max(segment.whole_batches_before(position + max_bytes) - position, 0)
        if size < first_batch_bytes:
            size = first_batch_bytes if first_batch_bytes <= max_bytes or min_one_batch else 0
    if size <= 0:  # The batch ends behind the limit (a watermark inside it), or the reader wants nothing.
        return LogSlice(None, 0, 0, first_offset, is_recent)
    return LogSlice(segment.handle(), position, size, first_offset, is_recent)
