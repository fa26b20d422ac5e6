"""What a partition must contain, kept the simple way: a list of batches and a few offsets.

The model takes note of what the log was asked to do and has acknowledged. `check` compares everything a reader could
see. `recover` accepts what a crash may do and nothing else: records that were not flushed may be gone, from the end
only; a batch that was under way when the power went may be there, as it was sent, or not; what was cut off or deleted
without being synced may be back, as it was. Below `compacted_end_offset` records may be missing for which a newer one
with the same key is there.
"""

from typing import Final, NamedTuple

from ottla.log.partition_log import PartitionLog
from ottla.wire.records import BatchHeader, Record, batches, is_crc_valid, parse_header, records_of

READ_BYTES: Final = 700  # Small, so that reading a log takes many slices, most of which end inside a batch.


class ModelBatch(NamedTuple):
    header: BatchHeader
    records: tuple[Record, ...]

    @classmethod
    def of(cls, batch: bytes | bytearray | memoryview) -> "ModelBatch":
        return cls(parse_header(batch), tuple(records_of(batch)))

    @property
    def next_offset(self) -> int:
        return self.header.next_offset


class LogModel:
    def __init__(self) -> None:
        self.history: list[ModelBatch] = []  # From the first offset ever, deleted ones included: they may come back.
        self.cut_histories: list[list[ModelBatch]] = []  # As they were before truncations that are not synced yet.
        self.in_doubt: ModelBatch | None = None
        self.start_offset = 0
        self.durable_end_offset = 0
        self.compacted_end_offset = 0

    @property
    def end_offset(self) -> int:
        return self.history[-1].next_offset if self.history else 0

    # -- what was asked for ------------------------------------------------------------------------------------------

    def begin_append(self, batch: bytes | bytearray, base_offset: int, leader_epoch: int) -> None:
        sent = ModelBatch.of(batch)
        header = sent.header._replace(base_offset=base_offset, partition_leader_epoch=leader_epoch)
        records = (record._replace(offset=record.offset + base_offset) for record in sent.records)
        self.in_doubt = ModelBatch(header, tuple(records))

    def finish_append(self) -> None:
        assert self.in_doubt is not None
        self.history.append(self.in_doubt)
        self.in_doubt = None

    def flushed(self, end_offset: int) -> None:
        self.durable_end_offset = max(self.durable_end_offset, end_offset)
        self.cut_histories = [cut for cut in self.cut_histories if _common_end(cut, self.history) >= end_offset]

    def begin_truncate(self, end_offset: int) -> None:
        """From here on both the old and the new log are possible."""
        self.cut_histories.append(self.history)
        self.history = [batch for batch in self.history if batch.next_offset <= end_offset]
        self.durable_end_offset = min(self.durable_end_offset, end_offset)
        self.in_doubt = None

    def delete_before(self, start_offset: int) -> None:
        self.start_offset = max(self.start_offset, start_offset)

    def compacted(self, end_offset: int) -> None:
        """From here on anything that compaction may remove below an offset may be gone."""
        self.compacted_end_offset = max(self.compacted_end_offset, end_offset)

    def recover(self, log: PartitionLog, *, is_everything_kept: bool) -> None:
        """Judges what a restarted log came back with, and goes on from there."""
        found = read_all(log, is_dense=self.compacted_end_offset == 0)
        possible = [self.history, *self.cut_histories]
        if self.in_doubt is not None:
            possible.append([*self.history, self.in_doubt])
        history = next(
            (history for history in possible if self._is_possible(found, history, log.log_start_offset)), None
        )
        assert history is not None, f"invented: {_told(found)} is in none of {[_told(one) for one in possible]}"
        required = self.end_offset if is_everything_kept and not self.cut_histories else self.durable_end_offset
        assert log.log_end_offset >= required, f"lost: the log ends at {log.log_end_offset}, {required} was promised"
        assert log.log_start_offset <= max(self.start_offset, required), (
            f"lost: the log starts at {log.log_start_offset} instead of {self.start_offset}"
        )
        self.history = [batch for batch in history if batch.next_offset <= log.log_end_offset]
        self.start_offset = log.log_start_offset
        self.in_doubt = None
        if not is_everything_kept:
            self.cut_histories = []

    def _is_possible(self, found: list[ModelBatch], history: list[ModelBatch], log_start_offset: int) -> bool:
        if self.compacted_end_offset == 0 or not found:
            return _is_slice(found, history)
        end_offset = found[-1].next_offset
        piece = [batch for batch in history if log_start_offset < batch.next_offset <= end_offset]
        untouched = [batch for batch in piece if batch.next_offset > self.compacted_end_offset]
        if [batch for batch in found if batch.next_offset > self.compacted_end_offset] != untouched:
            return False
        return _is_left_of(found, piece)

    # -- what must be there ------------------------------------------------------------------------------------------

    def check(self, log: PartitionLog) -> None:
        assert (log.log_start_offset, log.log_end_offset) == (
            self.start_offset,
            max(self.end_offset, self.start_offset),
        )
        visible = self.visible()
        found = read_all(log, is_dense=self.compacted_end_offset == 0)
        if self.compacted_end_offset == 0:
            assert _told(found) == _told(visible)
            assert found == visible
        assert self._is_possible(found, visible, log.log_start_offset), (
            f"{_told(found)} is not what is left of {_told(visible)}"
        )
        self._check_timestamps(log, found)
        self.check_producers(log, found)
        check_indexes(log)

    def visible(self) -> list[ModelBatch]:
        return [batch for batch in self.history if batch.next_offset > self.start_offset]

    def _check_timestamps(self, log: PartitionLog, visible: list[ModelBatch]) -> None:
        records = [record for batch in visible for record in batch.records if record.offset >= self.start_offset]
        for wanted in sorted({record.timestamp + around for record in records for around in (0, 1)})[::3]:
            expected = next((record.offset for record in records if record.timestamp >= wanted), None)
            answer = log.offset_for_timestamp(wanted)
            assert (answer.offset if answer else None) == expected, f"timestamp {wanted}"

    def check_producers(self, log: PartitionLog, found: list[ModelBatch]) -> None:
        """The last batch of each producer is known, and whatever else is known of it is true."""
        written: dict[int, list[tuple[int, ...]]] = {}
        for batch in self.history:
            if batch.header.has_producer_id:
                header = batch.header
                numbers = (header.base_sequence, header.last_sequence, header.base_offset, header.last_offset)
                written.setdefault(header.producer_id, []).append(numbers)
        for producer_id, producer in log.producer_state.producers.items():
            known = [batch[:4] for batch in producer.batches]
            assert known[-1:] == written[producer_id][-1:], f"producer {producer_id}: {known}"
            assert known == [numbers for numbers in written[producer_id] if numbers in known], f"{producer_id}: {known}"
        present = {batch.header.producer_id for batch in found if batch.header.has_producer_id}
        assert present <= set(log.producer_state.producers), "a producer in the log is not in the state"


def read_all(log: PartitionLog, *, is_dense: bool = True) -> list[ModelBatch]:
    """Every batch, as consumers would fetch them: dense offsets, valid checksums."""
    found: list[ModelBatch] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        piece = log.read(offset, READ_BYTES)
        assert piece.file is not None and piece.size > 0, f"a reader at {offset} of {log} stands still"
        data = piece.file.pread(piece.size, piece.position)
        count_before = len(found)
        for batch in batches(memoryview(data), stop_at_partial=True):
            assert is_crc_valid(batch.view), f"rotten batch at {batch.header.base_offset}"
            assert offset < batch.header.next_offset, f"behind {offset}: {batch.header}"
            assert batch.header.base_offset <= offset or not is_dense, f"a gap at {offset}: {batch.header}"
            found.append(ModelBatch.of(batch.view))
            offset = batch.header.next_offset
        assert len(found) > count_before, f"no whole batch for a reader at {offset} of {log}"
    return found


def check_indexes(log: PartitionLog) -> None:
    """Every entry points at the batch it names."""
    for segment in log.segments:
        offset_index, time_index = segment.indexes()
        data = segment.handle().pread(segment.size, 0)
        headers = {batch.position: batch.header for batch in batches(memoryview(data))}
        last_offsets = {header.last_offset: header for header in headers.values()}
        for relative_offset, position in offset_index.entries():
            assert headers[position].last_offset == segment.base_offset + relative_offset, "offset index"
        for timestamp, relative_offset in time_index.entries():
            named = last_offsets[segment.base_offset + relative_offset]
            assert named.max_timestamp == timestamp, "time index"
            earlier = [one.max_timestamp for one in headers.values() if one.base_offset < named.base_offset]
            assert max(earlier, default=-1) < timestamp, "time index: an earlier batch is as late"


def _is_slice(found: list[ModelBatch], history: list[ModelBatch]) -> bool:
    if not found:
        return True
    starts = [number for number, batch in enumerate(history) if batch == found[0]]
    return any(history[start : start + len(found)] == found for start in starts)


def _is_left_of(found: list[ModelBatch], piece: list[ModelBatch]) -> bool:
    """Every batch found is one of the piece with records missing, and none whose key has no newer record is."""
    originals = {batch.header.base_offset: batch for batch in piece}
    for batch in found:
        original = originals.get(batch.header.base_offset)
        if original is None or batch.header.last_offset != original.header.last_offset:
            return False
        if batch.header.base_sequence != original.header.base_sequence:
            return False
        if not all(record in original.records for record in batch.records):
            return False
    newest = {record.key: record.offset for batch in piece for record in batch.records}
    return set(newest.values()) <= {record.offset for batch in found for record in batch.records}


def _common_end(one: list[ModelBatch], other: list[ModelBatch]) -> int:
    end = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        end = left.next_offset
    return end


def _told(history: list[ModelBatch]) -> str:
    return " ".join(f"{batch.header.base_offset}-{batch.header.last_offset}" for batch in history)
