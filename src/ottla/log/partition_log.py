"""One replica's log of one partition. Reading and appending are inherited; its upkeep is here.

What changes the log's state runs on the event loop and does not block. What blocks is a method of its own for a worker
thread, says so, and leaves the state alone: a roll, a flush and a deletion are therefore each a blocking half and a
`complete_*` (or `detach`). Truncations and `close` do both, so nobody else may use the log meanwhile. Of the blocking
halves one at a time runs per log, beside appends and reads.

`flush.messages`: at most so many records less one are acknowledged unsynced; with 1 an acknowledgement waits until
`durable_end_offset` has passed its record. `flush.ms` bounds how long a record stays unsynced, and delays nobody.
"""

from collections.abc import Sequence
from contextlib import suppress
from posixpath import dirname, join

from ottla.base.disk import Disk
from ottla.base.errors import ApiError, ErrorCode, invariant
from ottla.base.types import Offset, TimestampMs, TopicId, TopicPartition
from ottla.log import file_names, retention
from ottla.log.appendable_log import AppendableLog, AppendResult
from ottla.log.checkpoints import encode_epochs
from ottla.log.compaction.job import CleanedSegment
from ottla.log.config import LogConfig
from ottla.log.deletion import remove_deleted, remove_files, rename_deleted
from ottla.log.handles import HandleCache
from ottla.log.partition_metadata import sync_topic_id, write_topic_id
from ottla.log.producer_state import ProducerState
from ottla.log.readable_log import LogSlice
from ottla.log.recovery import LoadedLog, Loading, load, rebuild_producers
from ottla.log.segment import Segment
from ottla.log.segment_list import SegmentList

__all__ = ["AppendResult", "LogSlice", "PartitionLog", "SidecarsUnsaved"]


class SidecarsUnsaved(OSError):
    """The records are on stable storage, an index or checkpoint beside them is not: the flush does not count yet."""


class PartitionLog(AppendableLog):
    __slots__ = ("last_flush_ms",)

    def __init__(
        self,
        disk: Disk,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        handles: HandleCache,
        loaded: LoadedLog,
        *,
        now_ms: TimestampMs,
    ) -> None:
        super().__init__(disk, directory, topic_partition, config, handles, loaded)
        self.last_flush_ms = now_ms
        self._unsynced_directories = () if loaded.is_directory_synced else (directory, dirname(directory))
        self.update_config(config)

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        now_ms: TimestampMs,
        *,
        clean_shutdown: bool = False,
        recovery_point: Offset = 0,
        log_start_offset: Offset = 0,
        topic_id: TopicId | None = None,
        handles: HandleCache | None = None,
    ) -> "PartitionLog":
        """Blocking. Lists, recovers if there was no clean shutdown, creates what is missing.

        A directory of another topic id is INCONSISTENT_TOPIC_ID: the topic was deleted and created again.
        """
        if handles is None:
            handles = HandleCache()
        loading = Loading(disk=disk, directory=directory, config=config, handles=handles, now_ms=now_ms)
        loaded = load(
            loading, is_clean=clean_shutdown, recovery_point=recovery_point, log_start_offset=log_start_offset
        )
        log = cls(disk, directory, topic_partition, config, handles, loaded, now_ms=now_ms)
        if topic_id is not None:
            try:
                log.assign_topic_id(topic_id)
            except ApiError:
                log.close(clean=False)
                raise
        if log.log_end_offset - log.recovery_point >= config.flush_messages:
            with suppress(SidecarsUnsaved):  # A full disk keeps nobody from starting: the next flush writes them.
                log.flush(now_ms=now_ms)  # What recovery read back may be in the page cache alone.
        return log

    def assign_topic_id(self, topic_id: TopicId) -> None:
        """Blocking the first time. A log keeps the id it has; the file is synced with the first flush."""
        if self.topic_id is None:
            write_topic_id(self._disk, self.directory, topic_id)
            self.topic_id = topic_id
        elif self.topic_id != topic_id:
            raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID, f"{self.directory} belongs to topic id {self.topic_id}")

    # Flush

    def needs_flush(self, now_ms: TimestampMs) -> bool:
        unflushed = self.log_end_offset - self.recovery_point
        return unflushed > 0 and (
            unflushed >= self._flush_messages or now_ms - self.last_flush_ms >= self.config.flush_ms
        )

    def sync_files(self, up_to_offset: Offset | None = None) -> Offset:
        """Blocking: fsync of all that was appended, or of the segments before an offset. Returns how far it reaches.

        `SidecarsUnsaved` when the records are synced and something beside them is not: nothing is lost, try again. Any
        other `OSError` leaves the records themselves in doubt.
        """
        end_offset = self.log_end_offset
        if up_to_offset is not None:
            end_offset = min(end_offset, up_to_offset)
        for segment in self.segments.from_offset(self.recovery_point):
            if segment.base_offset < end_offset:
                self._sync_segment(segment)
        try:
            self._save_sidecars()
        except OSError as error:
            self._sync_names()
            self._unsynced_directories += (self.directory,)  # Those that are to be saved are new names, perhaps.
            raise SidecarsUnsaved(error.errno, error.strerror) from error
        self._sync_names()
        return end_offset

    def _sync_segment(self, segment: Segment) -> None:
        try:
            segment.handle().sync()
        except FileNotFoundError:
            # Retention and compaction run beside us, and take files by name: what they took needs no sync any more.
            if segment in self.segments:
                raise

    def _sync_names(self) -> None:
        """Those of new files, and the topic's id: without them nobody would find the records, nor what is beside them."""
        directories, self._unsynced_directories = self._unsynced_directories, ()
        try:
            if directories and self.topic_id is not None:
                sync_topic_id(self._disk, self.directory)
            for directory in dict.fromkeys(directories):
                self._disk.sync_directory(directory)
        except OSError:
            self._unsynced_directories += directories
            raise

    def _save_sidecars(self) -> None:
        """Indexes of sealed segments, and epochs."""
        for segment in self.segments:
            if segment.is_sealed:
                segment.save_indexes()
        self._write_epochs()

    def complete_flush(self, end_offset: Offset, now_ms: TimestampMs | None = None) -> None:
        """All below `end_offset`, which `sync_files` returned, is on stable storage."""
        self.recovery_point = max(self.recovery_point, min(end_offset, self.log_end_offset))
        self.durable_end_offset = max(self.durable_end_offset, self.recovery_point)
        self._advance_end(self.log_end_offset)
        if now_ms is not None:
            self.last_flush_ms = now_ms

    def flush(self, up_to_offset: Offset | None = None, *, now_ms: TimestampMs | None = None) -> Offset:
        """Blocking. Both halves at once, where no loop is running beside."""
        self.complete_flush(self.sync_files(up_to_offset), now_ms)
        return self.durable_end_offset

    @property
    def recovery_checkpoint(self) -> Offset:
        """The recovery point to write down: not past a segment that has no index on disk yet.

        Its records may be synced to the last, but recovery must come by it, or it would believe what index it finds.
        """
        recent = self.segments.from_offset(self.recovery_point - 1)
        ends = [*(segment.base_offset for segment in recent[1:]), self.log_end_offset]
        for segment, end_offset in zip(recent, ends, strict=True):
            if segment.size and not segment.are_indexes_saved:
                return min(self.recovery_point, end_offset - 1)
        return self.recovery_point

    def _write_epochs(self) -> None:
        unsaved = self.epochs.take_unsaved(self.log_end_offset)
        if unsaved is None:
            return
        try:
            self._disk.replace(join(self.directory, file_names.LEADER_EPOCH_CHECKPOINT), encode_epochs(unsaved))
        except OSError:
            self.epochs.not_saved()
            raise

    # Retention and deletion

    def plan_retention(self, now_ms: TimestampMs, *, high_watermark: Offset | None = None) -> list[Segment]:
        """Segments that may go by time, size or log start offset. If the active one is among them, roll first.

        May block: the largest timestamp of a segment is read once.
        """
        return retention.plan_retention(
            list(self.segments),
            self.config,
            now_ms=now_ms,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            high_watermark=self.log_end_offset if high_watermark is None else high_watermark,
        )

    def detach(self, segments: Sequence[Segment]) -> None:
        """Readers no longer find these segments; `rename_deleted` and, after a delay, `delete_files` follow."""
        if not segments:
            return
        invariant(self.segments.active not in segments, "the active segment stays")
        self.segments.remove(segments)
        for segment in segments:
            segment.forget_handle()
            self.snapshots.forget(segment.base_offset)
        self._start_at(max(self.log_start_offset, self.segments.first.base_offset))

    def rename_deleted(self, segments: Sequence[Segment]) -> None:
        """Blocking."""
        rename_deleted(self._disk, segments)

    def delete_files(self, segments: Sequence[Segment]) -> None:
        """Blocking. Of segments that `rename_deleted` has renamed, `file.delete.delay.ms` later."""
        remove_deleted(self._disk, segments)

    def delete_records_before(self, offset: Offset) -> None:
        """Readers no longer see what lies below; whole segments go with the next retention run."""
        if not 0 <= offset <= self.log_end_offset:
            raise self._out_of_range(offset)
        if offset > self.log_start_offset:
            self._start_at(offset)

    def _start_at(self, offset: Offset) -> None:
        self.log_start_offset = offset
        self.epochs.truncate_start(offset)

    # Compaction

    def prepare_swap(self, cleaned: CleanedSegment) -> Segment:
        """Blocking. From here on a restart would put the cleaned segment in place; the log does not know it yet.

        It is complete on stable storage, names included, before `finish_swap` removes anything.
        """
        segment = Segment(
            self._disk,
            self.directory,
            cleaned.base_offset,
            self._handles,
            index_interval_bytes=self.config.index_interval_bytes,
            size=cleaned.size_bytes,
            name_ending=file_names.CLEANED,
        )
        try:
            segment.rename(file_names.SWAP)
            self._disk.sync_directory(self.directory)
            segment.pin()
        except OSError:
            self.discard_cleaned(cleaned)
            raise
        return segment

    def complete_swap(self, replaced: Sequence[Segment], segment: Segment) -> None:
        """Readers find the cleaned segment; who still holds one of the others reads it to the end of its slice."""
        for old in replaced:
            old.is_replaced = True
            old.forget_handle()
            if old.base_offset != segment.base_offset:
                self.snapshots.forget(old.base_offset)
        segment.is_sealed = True
        self.segments.replace(replaced, segment)

    def finish_swap(self, replaced: Sequence[Segment], segment: Segment) -> None:
        """Blocking. The names follow. If it fails, this log is right in memory and a restart makes it so on disk."""
        for old in replaced:
            for suffix in file_names.SEGMENT_SUFFIXES:
                self._disk.remove(old.path(suffix))
            if old.base_offset != segment.base_offset:
                self._disk.remove(old.path(file_names.PRODUCER_SNAPSHOT))
        self._disk.sync_directory(self.directory)  # Not one of them may come back beside the new one.
        segment.rename("")
        self._disk.sync_directory(self.directory)
        segment.unpin()

    def discard_cleaned(self, cleaned: CleanedSegment) -> None:
        """Blocking. Instead of a swap, or after one that could not be prepared."""
        for suffix in file_names.SEGMENT_SUFFIXES:
            for ending in (file_names.CLEANED, file_names.SWAP):
                self._disk.remove(join(self.directory, file_names.stem(cleaned.base_offset) + suffix + ending))

    # Truncation

    def truncate_to(self, offset: Offset, *, now_ms: TimestampMs) -> bool:
        """Blocking. Forgets all from the batch with `offset` on. False: the log ends before it.

        The recovery point may move back: its checkpoint is to be written before anything is appended.
        """
        if offset >= self.log_end_offset:
            # An epoch in which we led and wrote nothing says nothing, and contradicts the leader's history.
            self.epochs.truncate_end(self.log_end_offset)
            return False
        if offset < self.segments.first.base_offset:
            self.truncate_fully_at(offset)
            return True
        removed = [segment for segment in self.segments if segment.base_offset > offset]
        if removed:
            remove_files(self._disk, removed)
            self._disk.sync_directory(self.directory)
            self.segments.remove(removed)
        self.segments.active.truncate(offset)
        self.snapshots.remove_above(offset)
        loading = Loading(
            disk=self._disk, directory=self.directory, config=self.config, handles=self._handles, now_ms=now_ms
        )
        self.producer_state = rebuild_producers(loading, list(self.segments), self.snapshots, offset)
        self._end_at(offset)
        return True

    def truncate_fully_at(self, offset: Offset) -> None:
        """Blocking. An empty log that goes on at `offset`."""
        remove_files(self._disk, list(self.segments))
        self.snapshots.remove_above(-1)
        self._disk.sync_directory(self.directory)  # What a crash brought back would lie before a hole.
        segment = Segment.create(
            self._disk, self.directory, offset, self._handles, index_interval_bytes=self.config.index_interval_bytes
        )
        self._disk.sync_directory(self.directory)
        self.segments = SegmentList([segment])
        self.producer_state = ProducerState()
        self.log_start_offset = offset
        self.epochs.clear()
        self.durable_end_offset = self.recovery_point = offset  # Nothing is there that could be lost.
        self._end_at(offset)

    def _end_at(self, offset: Offset) -> None:
        self.log_end_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self.durable_end_offset = min(self.durable_end_offset, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self.epochs.truncate_end(offset)
        self._write_epochs()

    # Producers, close

    def expire_producers(self, now_ms: TimestampMs) -> int:
        """How many were forgotten after `producer.id.expiration.ms` without a batch."""
        return len(self.producer_state.expire(now_ms, self.config.producer_id_expiration_ms))

    def close(self, *, clean: bool = True) -> None:
        """Blocking. A clean close leaves nothing to recover: all is synced, indexes and producers are written."""
        if clean:
            if self.recovery_point < self.log_end_offset or (self._unsynced_directories and self.log_end_offset > 0):
                self.flush()
            self._write_epochs()
            self.segments.active.save_indexes()
            if self.log_end_offset > (self.snapshots.latest_offset or 0):
                self.snapshots.write(self.log_end_offset, self.producer_state)
        for segment in self.segments:
            segment.forget_handle()
