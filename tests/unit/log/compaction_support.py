"""What the tests of compaction share: a log with a history, a pass over it, and what readers see of it."""

from dataclasses import dataclass, field
from random import Random
from typing import Final

from ottla.log.compaction.job import CleaningDone
from ottla.log.config import CleanupPolicy, LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.wire.records import (
    BatchBuilder,
    BatchHeader,
    Codec,
    ControlType,
    Record,
    batches,
    end_transaction_marker,
    is_crc_valid,
    records_of,
)
from sim import compaction
from tests.unit.log.support import NOW_MS

DELETE_RETENTION_MS: Final = 10_000
COMPACTED: Final = LogConfig(
    cleanup_policy=frozenset({CleanupPolicy.COMPACT}),
    segment_bytes=1_500,
    index_interval_bytes=200,
    delete_retention_ms=DELETE_RETENTION_MS,
    min_cleanable_dirty_ratio=0.0,
    message_timestamp_after_max_ms=10**12,
)
BUFFER_BYTES: Final = 1 << 20


def compact(
    log: PartitionLog,
    *,
    cleaned_end_offset: int | None = None,
    now_ms: int = NOW_MS,
    buffer_bytes: int = BUFFER_BYTES,
) -> CleaningDone | None:
    """A whole pass; `None` where nothing is to be cleaned."""
    return compaction.compact(
        log, log._disk, now_ms=now_ms, cleaned_end_offset=cleaned_end_offset, buffer_bytes=buffer_bytes
    )


def seal(log: PartitionLog) -> None:
    """Everything so far becomes cleanable."""
    log.roll()
    log.flush()


def batches_of(log: PartitionLog) -> list[tuple[BatchHeader, list[Record]]]:
    """Every batch, as a reader gets them who starts at the log's start: no offset twice, checksums good."""
    found: list[tuple[BatchHeader, list[Record]]] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        piece = log.read(offset, 600)
        if piece.file is None:
            break
        data = piece.file.pread(piece.size, piece.position)
        before = len(found)
        for batch in batches(memoryview(data), stop_at_partial=True):
            assert is_crc_valid(batch.view)
            assert batch.header.next_offset > offset
            found.append((batch.header, list(records_of(batch.view))))
            offset = batch.header.next_offset
        assert len(found) > before
    return found


def data_of(log: PartitionLog) -> list[Record]:
    return [record for header, records in batches_of(log) if not header.is_control for record in records]


def markers_of(log: PartitionLog) -> list[int]:
    return [record.offset for header, records in batches_of(log) if header.is_control for record in records]


@dataclass
class History:
    """Appends what its methods are told, and remembers it."""

    log: PartitionLog
    now_ms: int = NOW_MS
    records: dict[int, Record] = field(default_factory=dict)
    aborted_offsets: set[int] = field(default_factory=set)
    open_offsets: dict[int, list[int]] = field(default_factory=dict)
    next_sequences: dict[int, int] = field(default_factory=dict)
    marker_offsets: set[int] = field(default_factory=set)

    def write(
        self,
        *pairs: tuple[bytes, bytes | None],
        producer_id: int = -1,
        transactional: bool = False,
        codec: Codec = Codec.NONE,
    ) -> list[int]:
        """One batch; returns the offsets."""
        sequence = self.next_sequences.get(producer_id, 0) if producer_id >= 0 else -1
        builder = BatchBuilder(
            codec=codec,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence,
            transactional=transactional,
        )
        headers = [("h", b"1"), ("n", None)]
        for number, (key, value) in enumerate(pairs):
            builder.append(self.now_ms - 3 * number, key, value, headers if number % 3 == 1 else ())
        batch = memoryview(builder.build())
        if self.log.should_roll(len(batch), self.now_ms):
            self.log.roll()
        base_offset = self.log.append_as_leader(batch, leader_epoch=0, now_ms=self.now_ms).base_offset
        if producer_id >= 0:
            self.next_sequences[producer_id] = sequence + len(pairs)
        offsets = []
        for record in records_of(batch):
            offsets.append(record.offset)
            self.records[record.offset] = record
        assert offsets[0] == base_offset
        if transactional:
            self.open_offsets.setdefault(producer_id, []).extend(offsets)
        return offsets

    def end(self, producer_id: int, *, commits: bool) -> int:
        marker = end_transaction_marker(
            ControlType.COMMIT if commits else ControlType.ABORT,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=self.now_ms,
        )
        batch = memoryview(marker)
        if self.log.should_roll(len(batch), self.now_ms):
            self.log.roll()
        offset = self.log.append_own(batch, leader_epoch=0, now_ms=self.now_ms).base_offset
        written = self.open_offsets.pop(producer_id, [])
        if not commits:
            self.aborted_offsets.update(written)
        self.marker_offsets.add(offset)
        return offset

    def committed(self) -> dict[int, Record]:
        undecided = {offset for offsets in self.open_offsets.values() for offset in offsets}
        return {
            offset: record
            for offset, record in self.records.items()
            if offset not in self.aborted_offsets and offset not in undecided
        }


def newest_by_key(records: dict[int, Record]) -> dict[bytes, Record]:
    newest: dict[bytes, Record] = {}
    for offset in sorted(records):
        record = records[offset]
        assert record.key is not None
        newest[record.key] = record
    return newest


def random_history(history: History, chance: Random, batch_count: int, key_count: int) -> None:
    """Plain, idempotent and transactional batches of every codec, tombstones among them."""
    keys = [b"key-%d" % number * (1 if number % 4 else 9) for number in range(key_count)]
    for _ in range(batch_count):
        history.now_ms += chance.randint(0, 500)
        pairs = [
            (chance.choice(keys), None if chance.random() < 0.15 else chance.randbytes(chance.randint(0, 60)))
            for _ in range(chance.randint(1, 6))
        ]
        codec = chance.choice(list(Codec))
        act = chance.random()
        open_ids = sorted(history.open_offsets)
        if act < 0.25:
            history.write(*pairs, codec=codec)
        elif act < 0.5:
            history.write(*pairs, codec=codec, producer_id=chance.choice((1, 2)))
        elif act < 0.8 or not open_ids:
            history.write(*pairs, codec=codec, producer_id=chance.choice((11, 12, 13)), transactional=True)
        else:
            history.end(chance.choice(open_ids), commits=chance.random() < 0.6)
