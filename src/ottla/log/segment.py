"""One segment of a partition: a log file, its two indexes, and where the latest batches lie in it.

Only the active segment, the last one, is written; a sealed one never changes again. The file is opened when needed and
given back to the handle cache; the indexes live in memory, are read when first needed and written when the segment is
sealed or closed. Invariants: `size` counts whole batches only (a failed write is cut off before the next one), and
`recent` positions, where there are any, reach without a gap to the end of the file.
"""

from array import array
from bisect import bisect_left, bisect_right
from contextlib import suppress
from posixpath import join
from typing import Final, NamedTuple

from ottla.base.disk import Buffer, Disk, File
from ottla.base.errors import invariant
from ottla.base.types import NO_TIMESTAMP, Offset, TimestampMs
from ottla.log import file_names
from ottla.log.batch_scan import SCAN_CHUNK_BYTES, scan_headers
from ottla.log.handles import HandleCache
from ottla.log.offset_index import ENTRY_BYTES as INDEX_ENTRY_BYTES
from ottla.log.offset_index import RELATIVE_OFFSET_MAX, OffsetIndex
from ottla.log.producer_state import CompletedTransaction
from ottla.log.time_index import ENTRY_BYTES as TIME_ENTRY_BYTES
from ottla.log.time_index import TimeIndex
from ottla.log.transaction_index import AbortedTransaction, decode_entries, encode_entries

RECENT_BATCHES_MAX: Final = 256  # Positions kept for tailing readers: 3 KB of arrays in a partition that was written.
TIMESTAMP_NOT_READ: Final = -2  # The largest timestamp is in the time index on disk, and nobody asked yet.


class BatchPlace(NamedTuple):
    """Where a batch lies; `is_recent` when it was appended a moment ago, so surely still in the page cache."""

    position: int
    size_bytes: int
    base_offset: Offset
    is_recent: bool


class SegmentReplaced(FileNotFoundError):
    """Compaction has put another segment in this one's place while a thread was using it: look it up again."""


class Segment:
    __slots__ = (
        "_aborted",
        "_bytes_since_entry",
        "_directory",
        "_disk",
        "_file",
        "_handles",
        "_index_interval_bytes",
        "_is_tail_unknown",
        "_offset_index",
        "_recent_last_offset",
        "_recent_offsets",
        "_recent_positions",
        "_time_index",
        "are_indexes_saved",
        "base_offset",
        "first_append_ms",
        "is_replaced",
        "is_sealed",
        "max_timestamp",
        "max_timestamp_offset",
        "name_ending",
        "size",
        "used",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: Offset,
        handles: HandleCache,
        *,
        index_interval_bytes: int,
        size: int = 0,
        name_ending: str = "",
    ) -> None:
        """A segment whose files are there already. Its indexes are read when they are first needed."""
        self.base_offset = base_offset
        self.size = size
        self.name_ending = name_ending  # `.cleaned` and `.swap` while compaction puts it in place.
        self.is_sealed = False
        self.is_replaced = False
        self.first_append_ms: TimestampMs = NO_TIMESTAMP
        self.max_timestamp: TimestampMs = TIMESTAMP_NOT_READ if size else NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.used = False
        self._disk = disk
        self._directory = directory
        self._handles = handles
        self._index_interval_bytes = index_interval_bytes
        self._file: File | None = None
        self._offset_index: OffsetIndex | None = None if size else OffsetIndex()
        self._time_index: TimeIndex | None = None if size else TimeIndex()
        self._aborted: list[AbortedTransaction] | None = None if size else []
        self.are_indexes_saved = size > 0
        self._bytes_since_entry = 0
        self._is_tail_unknown = False
        self._recent_last_offset = base_offset
        self._recent_offsets = array("q")
        self._recent_positions = array("i")

    @classmethod
    def create(
        cls,
        disk: Disk,
        directory: str,
        base_offset: Offset,
        handles: HandleCache,
        *,
        index_interval_bytes: int,
        name_ending: str = "",
    ) -> "Segment":
        """A new, empty segment with its files; none of them stays behind where one cannot be made. Blocking."""
        segment = cls(
            disk, directory, base_offset, handles, index_interval_bytes=index_interval_bytes, name_ending=name_ending
        )
        try:
            for suffix in (file_names.OFFSET_INDEX, file_names.TIME_INDEX):
                disk.open(segment.path(suffix), create=True).close()
            file = disk.open(segment.path(file_names.LOG), create=True)
            invariant(file.size() == 0, "a new segment is empty", path=file.path)
        except OSError:
            with suppress(OSError):
                for suffix in (file_names.LOG, file_names.OFFSET_INDEX, file_names.TIME_INDEX):
                    disk.remove(segment.path(suffix))
            raise
        segment._file = file
        handles.admit(segment)
        return segment

    def __repr__(self) -> str:
        return f"Segment(base_offset={self.base_offset}, size={self.size}, is_sealed={self.is_sealed})"

    def path(self, suffix: str) -> str:
        return join(self._directory, file_names.stem(self.base_offset) + suffix + self.name_ending)

    # The file

    def handle(self) -> File:
        self.used = True
        file = self._file
        if file is None:
            file = self._disk.open(self.path(file_names.LOG))
            self._require_current()
            self._file = file
            self._handles.admit(self)
        return file

    def _require_current(self) -> None:
        """After anything was read by name: the name may belong to the segment in our place already."""
        if self.is_replaced:
            raise SegmentReplaced(f"{self.path(file_names.LOG)} was compacted")

    def release_handle(self) -> None:
        """For the handle cache: drops the file, and of a sealed segment the indexes, which are on disk."""
        self._file = None
        if self.is_sealed and self.are_indexes_saved:
            self._offset_index = self._time_index = self._aborted = None

    def forget_handle(self) -> None:
        if self._file is not None:
            self._handles.forget(self)
        self.release_handle()

    # Taking another's place

    def rename(self, name_ending: str) -> None:
        """Blocking. Of a segment whose files nobody opens by name meanwhile; the log file comes first."""
        for suffix in file_names.SEGMENT_SUFFIXES:
            path = self.path(suffix)
            if self._disk.exists(path):
                self._disk.rename(path, path.removesuffix(self.name_ending) + name_ending)
        self.name_ending = name_ending

    def pin(self) -> None:
        """Blocking. Everything is in memory and stays there: readers need no name until `unpin`."""
        self._file = self._disk.open(self.path(file_names.LOG))
        self.indexes()
        self.aborted_transactions()
        self.are_indexes_saved = True

    def unpin(self) -> None:
        self._handles.admit(self)

    # Writing

    def write(self, data: Buffer) -> int:
        """Appends bytes in one positional write and returns where; `index_batch` follows for each batch in them.

        A write that fails leaves the segment as it was: what it left behind the end is cut off at once or, where even
        that fails, before anything else is written.
        """
        if self._is_tail_unknown:
            self._cut_tail()
        if self._time_index is None:
            self.indexes()  # What could fail does so before the write.
        position = self.size
        try:
            (self._file or self.handle()).pwrite(data, position)
        except OSError:
            self._is_tail_unknown = True
            with suppress(OSError):  # It stays marked then, and the next write cuts first or fails like this one.
                self._cut_tail()
            raise
        self.used = True
        self.size = position + len(data)
        return position

    def index_batch(
        self, position: int, size_bytes: int, base_offset: Offset, last_offset: Offset, max_timestamp: TimestampMs
    ) -> None:
        """Takes note of one batch that `write` has put at `position`."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if self._bytes_since_entry > self._index_interval_bytes:
            self._add_index_entries(position, last_offset)
        self._bytes_since_entry += size_bytes
        self.are_indexes_saved = False
        recent = self._recent_offsets
        recent.append(base_offset)
        self._recent_last_offset = last_offset
        self._recent_positions.append(position)
        if len(recent) > RECENT_BATCHES_MAX:
            del recent[: RECENT_BATCHES_MAX // 2]
            del self._recent_positions[: RECENT_BATCHES_MAX // 2]

    def forget_recent(self) -> None:
        """Before a batch that leaves an offset gap: `recent` positions hold only while batches touch each other."""
        del self._recent_offsets[:]
        del self._recent_positions[:]

    def _add_index_entries(self, position: int, last_offset: Offset) -> None:
        offset_index, time_index = self.indexes()
        offset_index.append(last_offset - self.base_offset, position)
        time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
        self._bytes_since_entry = 0

    def _cut_tail(self) -> None:
        self.handle().truncate(self.size)
        self._is_tail_unknown = False

    # Finding

    def find(self, offset: Offset) -> BatchPlace | None:
        """The first batch that holds `offset` or anything after it; `None` when the segment ends before it."""
        recent = self._recent_offsets
        if recent and offset >= recent[0]:
            if offset > self._recent_last_offset:
                return None
            slot = bisect_right(recent, offset)
            positions = self._recent_positions
            position = positions[slot - 1]
            end = positions[slot] if slot < len(positions) else self.size
            return BatchPlace(position, end - position, recent[slot - 1], True)
        start = self.indexes()[0].floor_position(max(offset - self.base_offset, 0))
        for position, header in scan_headers(self.handle(), start, self.size):
            if header.base_offset + header.last_offset_delta >= offset:
                return BatchPlace(position, header.size_bytes, header.base_offset, False)
        return None

    def is_lookup_cached(self, offset: Offset) -> bool:
        """Whether `find` would not wait for the disk: the index is in memory, and so are the pages it points at."""
        file, index = self._file, self._offset_index
        if file is None or index is None:
            return False
        # The search reads headers at most an index interval behind the one entry, then the one at the next entry.
        start, following = index.bracket(max(offset - self.base_offset, 0))
        near = min(self._index_interval_bytes + SCAN_CHUNK_BYTES, self.size - start)
        far = min(SCAN_CHUNK_BYTES, self.size - following)
        return file.is_cached(start, near) and (following < 0 or file.is_cached(following, far))

    def whole_batches_before(self, position: int) -> int:
        """A position at or before `position` where a batch begins, as close as memory tells; 0 if it tells nothing."""
        positions = self._recent_positions
        if positions and position >= positions[0]:
            return positions[bisect_right(positions, position) - 1]
        return 0 if self._offset_index is None else self._offset_index.last_batch_before(position)

    def offset_behind(self, position: int) -> Offset | None:
        """An offset behind every batch that begins before `position`, as close as memory tells; None if it tells none."""
        positions = self._recent_positions
        if positions and position >= positions[0]:
            slot = bisect_left(positions, position)
            offsets = self._recent_offsets  # The loop cuts this one first: never too small, but perhaps too short.
            return offsets[slot] if slot < len(offsets) else None
        relative = None if self._offset_index is None else self._offset_index.offset_behind(position)
        return None if relative is None else self.base_offset + relative

    def has_recent(self, offset: Offset) -> bool:
        return bool(self._recent_offsets) and offset >= self._recent_offsets[0] and self._file is not None

    def position_of(self, offset: Offset) -> int:
        """Where the bytes below `offset` end: the start of its batch, or the end of the segment."""
        place = self.find(offset)
        return self.size if place is None else place.position

    # Indexes

    def indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        offset_index, time_index = self._offset_index, self._time_index
        if offset_index is None or time_index is None:
            offset_index, time_index = self._load_indexes()
        return offset_index, time_index

    @property
    def index_entry_count(self) -> int:
        """What is in memory: a segment whose indexes were not needed yet counts as empty."""
        return len(self._offset_index) if self._offset_index is not None else 0

    def last_indexed(self, count_max: int, *, before: int | None = None) -> list[tuple[Offset, int]]:
        """The last batches, up to a position, that the index knows: an offset that none from there on ends before, and
        where each begins. Of an index that nobody needed yet only the end is read. None if it is of no use. Blocking."""
        index = self._offset_index
        if index is None and self.size > SCAN_CHUNK_BYTES:
            with suppress(FileNotFoundError, ValueError):
                file = self._disk.open(self.path(file_names.OFFSET_INDEX))
                start = max(file.size() // INDEX_ENTRY_BYTES - count_max, 0) * INDEX_ENTRY_BYTES
                data = file.pread((count_max + 1) * INDEX_ENTRY_BYTES, start)
                file.close()
                index = OffsetIndex.decode(data)
        entries = [] if index is None else index.entries_before(self.size if before is None else before, count_max)
        return [(self.base_offset + relative_offset, position) for relative_offset, position in entries]

    def largest_timestamp(self) -> TimestampMs:
        """Of all records; where they have none, when the file was last written. Blocking the first time."""
        if self.max_timestamp == TIMESTAMP_NOT_READ:
            self._read_max_timestamp()
        if self.max_timestamp >= 0:
            return self.max_timestamp
        return self._disk.modified_ms(self.path(file_names.LOG))

    def save_indexes(self) -> None:
        """Blocking. The time index ends with the segment's largest timestamp, as a sealed one's must.

        Both are synced, for a wrong index would hide records; those of a one-page log are never read back.
        """
        if self.are_indexes_saved:
            return
        offset_index, time_index = self.indexes()
        aborted = self.aborted_transactions()
        self.are_indexes_saved = True  # Before the bytes are taken: an append during the write clears it again.
        time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
        is_synced = self.size > SCAN_CHUNK_BYTES
        try:
            self._write_index(file_names.OFFSET_INDEX, offset_index.encode(), is_synced)
            self._write_index(file_names.TIME_INDEX, time_index.encode(), is_synced)
            is_there = self._disk.exists(self.path(file_names.TRANSACTION_INDEX))
            if aborted or is_there:
                self._write_index(file_names.TRANSACTION_INDEX, encode_entries(aborted), True)
            if aborted and not is_there:  # Without its name, what was aborted would be read.
                self._disk.sync_directory(self._directory)
        except OSError:
            self.are_indexes_saved = False
            raise

    def _write_index(self, suffix: str, data: bytes, is_synced: bool) -> None:
        file = self._disk.open(self.path(suffix), create=True)
        try:
            file.truncate(len(data))
            file.pwrite(data, 0)
            if is_synced:
                file.sync()
        finally:
            file.close()

    def _load_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """Reads both indexes. They are rebuilt from the log if one is missing or insane, or the log is one page."""
        if self.size <= SCAN_CHUNK_BYTES:
            return self._rebuild_indexes(are_good_on_disk=self.are_indexes_saved)
        try:
            offset_index = OffsetIndex.decode(self._disk.read(self.path(file_names.OFFSET_INDEX)))
            time_index = TimeIndex.decode(self._disk.read(self.path(file_names.TIME_INDEX)))
            self._require_current()
            last_position = offset_index.floor_position(RELATIVE_OFFSET_MAX)
            if last_position >= self.size or not len(time_index):
                raise ValueError("the indexes are not those of this log")
        except (FileNotFoundError, ValueError):
            return self._rebuild_indexes()
        self._offset_index, self._time_index = offset_index, time_index
        if self.max_timestamp == TIMESTAMP_NOT_READ:
            last = time_index.last
            self.max_timestamp, self.max_timestamp_offset = last.timestamp, self.base_offset + last.relative_offset
        self._bytes_since_entry = self.size - last_position
        return offset_index, time_index

    def _rebuild_indexes(self, *, are_good_on_disk: bool = False) -> tuple[OffsetIndex, TimeIndex]:
        aborted = self._aborted  # A file of its own, which nothing is wrong with.
        self.reset_indexes()
        self._aborted = aborted
        for position, header in scan_headers(self.handle(), 0, self.size):
            self.index_batch(position, header.size_bytes, header.base_offset, header.last_offset, header.max_timestamp)
        self.forget_recent()
        self.are_indexes_saved = are_good_on_disk
        return self.indexes()

    def reset_indexes(self) -> None:
        """Empty indexes, to be filled by `index_batch` from the first batch on."""
        self._offset_index, self._time_index = OffsetIndex(), TimeIndex()
        self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        self._aborted = []
        self._bytes_since_entry = 0
        self.are_indexes_saved = False
        self.forget_recent()

    def _read_max_timestamp(self) -> None:
        """From the last entry of the time index, without reading the rest."""
        if self.size <= SCAN_CHUNK_BYTES:
            self.indexes()
            return
        try:
            file = self._disk.open(self.path(file_names.TIME_INDEX))
            entry = file.pread(TIME_ENTRY_BYTES, max(file.size() - TIME_ENTRY_BYTES, 0))
            file.close()
            self._require_current()
            last = TimeIndex.decode(entry).last
            self.max_timestamp, self.max_timestamp_offset = last.timestamp, self.base_offset + last.relative_offset
        except (FileNotFoundError, ValueError):
            self._rebuild_indexes()

    # Aborted transactions

    @property
    def knows_aborted(self) -> bool:
        """Whether `aborted_transactions` would not wait for the disk."""
        return self._aborted is not None

    def aborted_transactions(self) -> list[AbortedTransaction]:
        """Those that a marker in this segment has aborted. Blocking the first time."""
        if self._aborted is None:
            path = self.path(file_names.TRANSACTION_INDEX)
            aborted = list(decode_entries(self._disk.read(path))) if self._disk.exists(path) else []
            self._require_current()
            self._aborted = aborted
        return self._aborted

    def note_aborted(self, completed: CompletedTransaction, last_stable_offset: Offset) -> None:
        producer_id, first_offset, last_offset, _ = completed
        aborted = AbortedTransaction(producer_id, first_offset, last_offset, last_stable_offset)
        self.aborted_transactions().append(aborted)
        self.are_indexes_saved = False

    # Cutting

    def truncate(self, offset: Offset) -> None:
        """Cuts the segment in front of the batch that holds `offset`. Blocking."""
        position = self.position_of(offset)
        offset_index, time_index = self.indexes()
        self.forget_recent()
        offset_index.truncate(offset - self.base_offset)
        time_index.truncate(offset - self.base_offset)
        self.cut(position)
        self.are_indexes_saved = False
        self._bytes_since_entry = position - offset_index.floor_position(RELATIVE_OFFSET_MAX)
        self._restore_max_timestamp()
        self._aborted = [aborted for aborted in self.aborted_transactions() if aborted.last_offset < offset]

    def _restore_max_timestamp(self) -> None:
        """The time index is sparse: batches after its last entry may have larger timestamps."""
        offset_index, time_index = self.indexes()
        timestamp, relative_offset = time_index.last
        self.max_timestamp, self.max_timestamp_offset = timestamp, self.base_offset + relative_offset
        start = offset_index.floor_position(relative_offset)
        for _, header in scan_headers(self.handle(), start, self.size):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = header.max_timestamp, header.last_offset

    def cut(self, position: int) -> None:
        """Drops the bytes from `position` on, for good: after a crash they must not be back under newer ones."""
        file = self.handle()
        file.truncate(position)
        file.sync()
        self.size = position
