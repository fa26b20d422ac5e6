"""Appending to one partition's log, as leader and as follower, and rolling to a new segment.

This is the hot path of the broker: one call per batch, nothing in it blocks but the write into the page cache, and
fields of the header are taken from its tuple by position. An append happens whole or not at all: every check comes
before the write, the write leaves nothing behind when it fails, and nothing after it can fail.
"""

from typing import Final, NamedTuple

from ottla.base.errors import ApiError, ErrorCode, invariant, violated
from ottla.base.types import NO_TIMESTAMP, LeaderEpoch, Offset, TimestampMs
from ottla.log.batch_checks import RECORDS_MAX, BatchLimits, check_client_batch
from ottla.log.config import LogConfig
from ottla.log.offset_index import ENTRY_BYTES as INDEX_ENTRY_BYTES
from ottla.log.offset_index import RELATIVE_OFFSET_MAX
from ottla.log.producer_replay import apply_batch
from ottla.log.producer_state import ProducerBatch
from ottla.log.readable_log import ReadableLog
from ottla.log.segment import Segment
from ottla.wire.batch import (
    CONTROL_BIT,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    SEQUENCE_MAX,
    TRANSACTIONAL_BIT,
    Batch,
    BatchHeader,
    TimestampType,
    batches,
    first_offset,
    is_crc_valid,
    parse_header,
    set_log_append_time,
    set_offset_and_epoch,
)

_RELATIVE_OFFSET_FULL: Final = RELATIVE_OFFSET_MAX - RECORDS_MAX  # Past it a batch might not fit any more.

# Positions in the header's tuple.
_BATCH_LENGTH: Final = 1
_ATTRIBUTES: Final = 5
_LAST_OFFSET_DELTA: Final = 6
_MAX_TIMESTAMP: Final = 8
_PRODUCER_ID: Final = 9
_PRODUCER_EPOCH: Final = 10
_BASE_SEQUENCE: Final = 11


class AppendResult(NamedTuple):
    base_offset: Offset
    last_offset: Offset
    log_append_time_ms: TimestampMs  # -1 under CreateTime.
    is_duplicate: bool


class AppendableLog(ReadableLog):
    __slots__ = (
        "_flush_messages", "_index_entries_max", "_is_append_time", "_limits", "_roll_after_ms",
        "_unsynced_directories",
    )  # fmt: skip

    _unsynced_directories: tuple[str, ...]  # With names of new files in them.

    def update_config(self, config: LogConfig) -> None:
        """Takes effect with the next append, roll, flush or retention run."""
        self.config = config
        self._limits = BatchLimits(config)
        self._is_append_time = config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
        self._flush_messages = config.flush_messages
        self._roll_after_ms = config.roll_after_ms - config.segment_jitter_ms
        self._index_entries_max = config.segment_index_bytes // INDEX_ENTRY_BYTES
        self._advance_end(self.log_end_offset)

    def append_as_leader(self, batch: memoryview, *, leader_epoch: LeaderEpoch, now_ms: TimestampMs) -> AppendResult:
        """One batch of a client: checked, numbered in place, written. Whoever calls has asked `should_roll` before.

        Raises `ApiError` for a wrong batch and `OSError` for a broken disk; either way the log is what it was. A batch
        that repeats one of the producer's last five is not written again: the answer is the first one's.
        """
        header = check_client_batch(batch, self._limits, now_ms)
        producer_id = header[_PRODUCER_ID]
        if producer_id >= 0:
            base_sequence = header[_BASE_SEQUENCE]
            duplicate = self.producer_state.check(
                producer_id,
                header[_PRODUCER_EPOCH],
                base_sequence,
                (base_sequence + header[_LAST_OFFSET_DELTA]) & SEQUENCE_MAX,
                header[_ATTRIBUTES] & TRANSACTIONAL_BIT != 0,
            )
            if duplicate is not None:
                append_time_ms = duplicate.timestamp if self._is_append_time else NO_TIMESTAMP
                return AppendResult(duplicate.base_offset, duplicate.last_offset, append_time_ms, True)
        return self._append(batch, header, leader_epoch, now_ms)

    def append_own(self, batch: memoryview, *, leader_epoch: LeaderEpoch, now_ms: TimestampMs) -> AppendResult:
        """A batch that this broker has built itself: coordinator records, transaction markers, metadata."""
        header = HEADER.unpack_from(batch)
        size_bytes = header[_BATCH_LENGTH] + LENGTH_OVERHEAD_BYTES
        if size_bytes != len(batch):
            violated("exactly one batch", declared=size_bytes, size=len(batch))
        if header[_PRODUCER_ID] >= 0:
            self.producer_state.check_epoch(header[_PRODUCER_ID], header[_PRODUCER_EPOCH])
        return self._append(batch, header, leader_epoch, now_ms)

    def append_marker(
        self,
        batch: memoryview,
        *,
        leader_epoch: LeaderEpoch,
        now_ms: TimestampMs,
        coordinator_epoch: int,
        is_epoch_raised: bool,
    ) -> AppendResult:
        """The end of a transaction, as its coordinator decided. One that has been appended before is not repeated where
        that can be told, that is where epochs are raised with every end."""
        header = parse_header(batch)
        is_new = self.producer_state.check_marker(
            header.producer_id,
            header.producer_epoch,
            coordinator_epoch=coordinator_epoch,
            is_epoch_raised=is_epoch_raised,
        )
        if not is_new:
            last_offset = self.log_end_offset - 1
            return AppendResult(last_offset, last_offset, NO_TIMESTAMP, True)
        return self._append(batch, header, leader_epoch, now_ms)

    def _append(
        self, batch: memoryview, header: tuple[int, ...], leader_epoch: LeaderEpoch, now_ms: TimestampMs
    ) -> AppendResult:
        base_offset = self.log_end_offset
        last_offset = base_offset + header[_LAST_OFFSET_DELTA]
        max_timestamp = header[_MAX_TIMESTAMP]
        append_time_ms = NO_TIMESTAMP
        set_offset_and_epoch(batch, base_offset, leader_epoch)
        if self._is_append_time:
            append_time_ms = max_timestamp = now_ms
            set_log_append_time(batch, now_ms)
        segment = self.segments.active
        position = segment.write(batch)
        if position == 0:
            segment.first_append_ms = now_ms
        segment.index_batch(position, len(batch), base_offset, last_offset, max_timestamp)
        self._advance_end(last_offset + 1)
        if leader_epoch != self.epochs.latest_epoch:
            self.epochs.assign(leader_epoch, base_offset)
        if header[_PRODUCER_ID] >= 0:
            self._update_producer(batch, header, base_offset, last_offset, max_timestamp)
        return AppendResult(base_offset, last_offset, append_time_ms, False)

    def _advance_end(self, end_offset: Offset) -> None:
        self.log_end_offset = end_offset
        if end_offset - self.recovery_point < self._flush_messages:
            self.durable_end_offset = end_offset

    def _update_producer(
        self,
        batch: memoryview,
        header: tuple[int, ...],
        base_offset: Offset,
        last_offset: Offset,
        max_timestamp: TimestampMs,
    ) -> None:
        if header[_ATTRIBUTES] & CONTROL_BIT:
            self._apply_replicated(parse_header(batch), batch)
            return
        base_sequence = header[_BASE_SEQUENCE]
        last_sequence = base_sequence
        if base_sequence >= 0:
            last_sequence = (base_sequence + header[_LAST_OFFSET_DELTA]) & SEQUENCE_MAX
        self.producer_state.update(
            header[_PRODUCER_ID],
            header[_PRODUCER_EPOCH],
            ProducerBatch(base_sequence, last_sequence, base_offset, last_offset, max_timestamp),
            header[_ATTRIBUTES] & TRANSACTIONAL_BIT != 0,
        )

    # As a follower

    def append_as_follower(self, data: memoryview, *, now_ms: TimestampMs) -> Offset:
        """Batches as a leader numbered them, in one write; a batch cut off at the end is left out. Returns the new end.

        `ProtocolError` for what is no batch, `ApiError` for a rotten one: nothing of the set is written then.
        """
        found = list(batches(data, stop_at_partial=True))
        if not found:
            return self.log_end_offset
        _check_replicated(found, self.log_end_offset, self.last_record_epoch)
        if found[0].header.partition_leader_epoch < self.epochs.latest_epoch:
            self.epochs.truncate_end(self.log_end_offset)  # We led in it, and wrote nothing.
        segment = self.segments.active
        last = found[-1]
        position = segment.write(data[: last.position + len(last.view)])
        if position == 0:
            segment.first_append_ms = now_ms
        for batch in found:
            header = batch.header
            base_offset, last_offset = header.base_offset, header.last_offset
            if base_offset != self.log_end_offset:
                segment.forget_recent()
            segment.index_batch(
                position + batch.position, len(batch.view), base_offset, last_offset, header.max_timestamp
            )
            self._advance_end(last_offset + 1)
            if header.partition_leader_epoch > self.epochs.latest_epoch:
                self.epochs.assign(header.partition_leader_epoch, base_offset)
            if header.producer_id >= 0:
                self._apply_replicated(header, batch.view)
        return self.log_end_offset

    def should_roll_before(self, data: memoryview, now_ms: TimestampMs) -> bool:
        """As `should_roll`, for batches that have their offsets: after a gap they may be too far from the base."""
        return self.should_roll(len(data), now_ms) or self._is_far(first_offset(data))

    def skip_gap_before(self, data: memoryview) -> None:
        """The leader's compaction left nothing before these batches: the segment they start begins with them."""
        offset = first_offset(data)
        if offset > self.log_end_offset and self._is_far(offset):
            self._advance_end(offset)

    def _is_far(self, offset: Offset) -> bool:
        return offset - self.segments.active.base_offset > _RELATIVE_OFFSET_FULL

    def _apply_replicated(self, header: BatchHeader, batch: memoryview) -> None:
        completed = apply_batch(self.producer_state, header, batch)
        if completed is not None and completed.is_aborted:
            self.segments.active.note_aborted(completed, self.producer_state.last_stable_after(completed))

    def check_batch(self, batch: memoryview, now_ms: TimestampMs) -> BatchHeader:
        """What `append_as_leader` checks first, for those who look into a batch before they append it."""
        return BatchHeader(*check_client_batch(batch, self._limits, now_ms))

    def needs_recompression(self, header: BatchHeader) -> bool:
        """Whether a batch must be re-compressed before it is appended (`compression.type`): work for a thread."""
        return self.config.compression_type is not None and header.codec is not self.config.compression_type

    # Roll

    def should_roll(self, incoming_bytes: int, now_ms: TimestampMs) -> bool:
        """Whether the active segment must be sealed before so many bytes are appended."""
        segment = self.segments.active
        size = segment.size
        if size == 0:
            return False
        return (
            size + incoming_bytes > self.config.segment_bytes
            or now_ms - segment.first_append_ms > self._roll_after_ms
            or self.log_end_offset - segment.base_offset > _RELATIVE_OFFSET_FULL
            or (
                size > self._index_entries_max * HEADER_BYTES  # No more than one for each batch: it is worth a look.
                and segment.index_entry_count >= self._index_entries_max
            )
        )

    def prepare_roll(self) -> Segment:
        """Blocking: the files of the next segment. Nothing may be appended until `complete_roll`, or it is given up."""
        if self.segments.active.base_offset == self.log_end_offset:
            return self.segments.active  # Nothing in it yet.
        self.snapshots.write(self.log_end_offset, self.producer_state)
        return Segment.create(
            self._disk,
            self.directory,
            self.log_end_offset,
            self._handles,
            index_interval_bytes=self.config.index_interval_bytes,
        )

    def complete_roll(self, segment: Segment) -> None:
        """Appends go to `segment` from here on. A flush up to its base offset should follow, off the loop."""
        if segment is self.segments.active:
            return
        invariant(segment.base_offset == self.log_end_offset, "no append during a roll", base=segment.base_offset)
        self.segments.add(segment)
        self._unsynced_directories = (*self._unsynced_directories, self.directory)

    def roll(self) -> Segment:
        segment = self.prepare_roll()
        self.complete_roll(segment)
        return segment


def _check_replicated(found: list[Batch], next_offset: Offset, epoch: LeaderEpoch) -> None:
    for batch in found:
        header = batch.header
        base_offset = header.base_offset
        if not is_crc_valid(batch.view):
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"the leader sent a rotten batch at offset {base_offset}")
        if base_offset < next_offset or header.last_offset_delta < 0:
            raise ApiError(
                ErrorCode.INVALID_RECORD, f"the leader sent offset {base_offset} where {next_offset} is next"
            )
        if header.partition_leader_epoch < epoch:
            reason = f"the leader sent epoch {header.partition_leader_epoch} behind epoch {epoch}"
            raise ApiError(ErrorCode.INVALID_RECORD, reason)
        next_offset, epoch = header.next_offset, header.partition_leader_epoch
