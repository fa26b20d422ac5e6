"""The work of a cleaner: reads the segments of a job, writes `.cleaned` ones beside them. Blocking, and changes no log.

Two walks: the first notes where each key of the dirty part was written last, the second writes what stays, from the
first segment on, several small ones into one. A segment that comes out as it went in is not written again. A batch with
a bad checksum is passed on untouched: followers and clients will refuse it, nobody else may judge it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from posixpath import join
from typing import Final

from ottla.base.disk import Buffer, Disk
from ottla.base.errors import ProtocolError
from ottla.log import file_names
from ottla.log.batch_scan import VerifiedBatch, scan_headers, scan_verified
from ottla.log.compaction.batch_filter import BATCH_BYTES_MAX, BatchFilter
from ottla.log.compaction.job import CleanedSegment, CleaningDone, CleaningJob, SourceSegment
from ottla.log.compaction.last_batches import LastBatches
from ottla.log.compaction.newest_offsets import NewestOffsets
from ottla.log.compaction.record_walk import walk_records
from ottla.log.compaction.transactions import WalkedTransactions
from ottla.log.handles import HandleCache
from ottla.log.offset_index import RELATIVE_OFFSET_MAX
from ottla.log.segment import Segment
from ottla.log.time_index import ENTRY_BYTES as TIME_ENTRY_BYTES
from ottla.wire.batch import BatchHeader, parse_header
from ottla.wire.record_reader import open_batch

WRITE_BYTES: Final = 1 << 20  # Collected before a write.


def clean(
    disk: Disk, job: CleaningJob, pace: Callable[[int], None] = lambda _: None
) -> Iterator[CleanedSegment | CleaningDone]:
    """Yields each new segment when it is complete, `CleaningDone` last. `pace` is told of bytes read and written, and
    may take its time. `ProtocolError` for records that cannot be read."""
    remove_cleaned(disk, job.directory)
    run = _Pass(disk, job, pace)
    run.find_newest()
    run.find_silent_producers()
    for group in group_segments(job, run.newest.mapped_end_offset):
        cleaned = run.write_group(group)
        if cleaned is not None:
            yield cleaned
    yield CleaningDone(
        cleaned_end_offset=run.newest.mapped_end_offset, read_bytes=run.read_bytes, written_bytes=run.written_bytes
    )


def remove_cleaned(disk: Disk, directory: str) -> None:
    """What a cleaner left that did not get to its end. A leftover must not be there when a swap begins: it would tell
    recovery that the swap was not complete."""
    for name, _ in disk.list_with_sizes(directory):
        if name.endswith(file_names.CLEANED):
            disk.remove(join(directory, name))


def group_segments(job: CleaningJob, mapped_end_offset: int) -> list[list[SourceSegment]]:
    """Neighbours that fit into one segment by size, by index and by relative offset."""
    groups: list[list[SourceSegment]] = []
    bytes_max = min(job.segment_bytes, job.segment_index_bytes // TIME_ENTRY_BYTES * job.index_interval_bytes)
    size_bytes = 0
    for segment in job.segments:
        if segment.base_offset >= mapped_end_offset:
            break
        size_bytes += segment.size_bytes
        if not groups or size_bytes > bytes_max or segment.end_offset - groups[-1][0].base_offset > RELATIVE_OFFSET_MAX:
            groups.append([])
            size_bytes = segment.size_bytes
        groups[-1].append(segment)
    return groups


class _Pass:
    def __init__(self, disk: Disk, job: CleaningJob, pace: Callable[[int], None]) -> None:
        self._disk = disk
        self._job = job
        self._pace = pace
        self.newest = NewestOffsets(job.buffer_bytes, job.first_dirty_offset)
        self._last_batches = LastBatches(job.producers)
        self._filter = BatchFilter(
            self.newest,
            WalkedTransactions(job.aborted, 0),
            self._last_batches,
            now_ms=job.now_ms,
            delete_retention_ms=job.delete_retention_ms,
        )
        self.read_bytes = 0
        self.written_bytes = 0

    def find_newest(self) -> None:
        newest, first_dirty_offset = self.newest, self._job.first_dirty_offset
        transactions = WalkedTransactions(self._job.aborted, first_dirty_offset)
        for segment in self._job.segments:
            if segment.end_offset <= first_dirty_offset:
                continue
            for batch in self._batches(segment):
                header = batch.header
                if header.last_offset < first_dirty_offset or not batch.is_crc_valid:
                    continue
                if newest.is_full:
                    return
                if header.is_control:
                    transactions.end(header, batch.data)
                else:
                    self._last_batches.meet(header)
                    if not transactions.is_aborted(header) and header.record_count:
                        _, records = open_batch(batch.data, BATCH_BYTES_MAX)
                        newest.add(walk_records(records, header.record_count), header.base_offset)
                newest.mapped_end_offset = header.next_offset
            newest.mapped_end_offset = segment.end_offset

    def find_silent_producers(self) -> None:
        """Those that wrote nothing in the dirty part: their last batch is further back, found by headers alone."""
        silent = self._last_batches.not_met
        for segment in self._job.segments if silent else ():
            with closing(self._disk.open(self._path(segment))) as file:
                for _, header in scan_headers(file, 0, segment.size_bytes):
                    if header.producer_id in silent and not header.is_control:
                        self._last_batches.meet(header)

    def write_group(self, group: Sequence[SourceSegment]) -> CleanedSegment | None:
        """`None` where nothing would change. A failure leaves nothing behind: the disk may be full of it."""
        writer = _Writer(self._disk, self._job, group[0].base_offset)
        try:
            is_changed = self._copy(group, writer)
            size_bytes = writer.finish() if is_changed else 0
        except Exception:
            with suppress(OSError):
                writer.discard()
            raise
        if not is_changed:
            writer.discard()
            return None
        self.written_bytes += size_bytes
        return CleanedSegment(base_offset=group[0].base_offset, end_offset=group[-1].end_offset, size_bytes=size_bytes)

    def _copy(self, group: Sequence[SourceSegment], writer: "_Writer") -> bool:
        """What stays. Whether anything is different then."""
        is_changed = len(group) > 1
        for segment in group:
            for batch in self._batches(segment):
                is_last = segment is group[-1] and batch.position + batch.header.size_bytes == segment.size_bytes
                kept: Buffer | None = batch.data
                if batch.is_crc_valid:
                    kept = self._filter.what_stays(batch.header, batch.data, is_last=is_last)
                is_changed = is_changed or kept is not batch.data
                if kept is not None:
                    writer.add(batch.header if kept is batch.data else parse_header(kept), kept)
                    self._pace(len(kept))
        writer.segment.aborted_transactions().extend(self._filter.aborted)
        self._filter.aborted.clear()
        return is_changed

    def _batches(self, segment: SourceSegment) -> Iterator[VerifiedBatch]:
        position = 0
        with closing(self._disk.open(self._path(segment))) as file:
            for batch in scan_verified(file, 0, segment.size_bytes):
                self._pace(batch.header.size_bytes)
                yield batch
                position = batch.position + batch.header.size_bytes
        self.read_bytes += position
        if position != segment.size_bytes:
            raise ProtocolError(f"{self._path(segment)}: no batch begins at {position}")

    def _path(self, segment: SourceSegment) -> str:
        return join(self._job.directory, file_names.stem(segment.base_offset) + file_names.LOG)


class _Writer:
    """One segment in the making, written a megabyte at a time."""

    def __init__(self, disk: Disk, job: CleaningJob, base_offset: int) -> None:
        self._disk = disk
        self.segment = Segment.create(
            disk,
            job.directory,
            base_offset,
            HandleCache(),
            index_interval_bytes=job.index_interval_bytes,
            name_ending=file_names.CLEANED,
        )
        self._collected: list[Buffer] = []
        self._collected_bytes = 0

    def add(self, header: BatchHeader, batch: Buffer) -> None:
        position = self.segment.size + self._collected_bytes
        self.segment.index_batch(position, len(batch), header.base_offset, header.last_offset, header.max_timestamp)
        self._collected.append(batch)
        self._collected_bytes += len(batch)
        if self._collected_bytes >= WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        self.segment.write(b"".join(self._collected))
        self._collected.clear()
        self._collected_bytes = 0

    def finish(self) -> int:
        """Synced, indexes and all. Its names follow with the swap."""
        self._write()
        segment = self.segment
        segment.handle().sync()
        segment.save_indexes()
        segment.forget_handle()
        return segment.size

    def discard(self) -> None:
        self.segment.forget_handle()
        for suffix in file_names.SEGMENT_SUFFIXES:
            self._disk.remove(self.segment.path(suffix))
