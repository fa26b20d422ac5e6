"""What stays of one batch, by Kafka's rules.

A record stays while no newer one has its key; a tombstone and a marker without a transaction stay on until their delete
horizon, which the first pass that meets them writes into the batch header (KIP-534). Of an aborted transaction nothing
stays. A batch that nothing changed in is passed on as it is. One that must not vanish (the last of a live producer, so
that its sequence goes on after a restart, and the last of a segment, so that segments still join) stays without records.
Base offset, last offset, leader epoch, sequences and timestamps never change.
"""

from typing import Final, NamedTuple

from ottla.base.disk import Buffer
from ottla.base.types import NO_TIMESTAMP, TimestampMs
from ottla.log.compaction.last_batches import LastBatches
from ottla.log.compaction.newest_offsets import KEY_BYTES_MAX, NewestOffsets, digest
from ottla.log.compaction.record_walk import walk_records
from ottla.log.compaction.transactions import WalkedTransactions
from ottla.log.transaction_index import AbortedTransaction
from ottla.wire.batch import (
    CODEC_MASK,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    LOG_APPEND_TIME_BIT,
    BatchHeader,
    set_crc,
)
from ottla.wire.compression import compress
from ottla.wire.record_reader import open_batch
from ottla.wire.varint import zigzag_varint

BATCH_BYTES_MAX: Final = 2**31 - 1  # Decompressed: it was accepted once, so it is read whatever its size.


class BatchFilter:
    """One pass over a log; batches are shown to it in order."""

    def __init__(
        self,
        newest: NewestOffsets,
        transactions: WalkedTransactions,
        last_batches: LastBatches,
        *,
        now_ms: TimestampMs,
        delete_retention_ms: int,
    ) -> None:
        self._newest = newest
        self._transactions = transactions
        self._last_batches = last_batches
        self._now_ms = now_ms
        self._new_horizon_ms = now_ms + delete_retention_ms
        self.aborted: list[
            AbortedTransaction
        ] = []  # Entries for the transaction index, of markers since it was emptied.

    def what_stays(self, header: BatchHeader, batch: Buffer, *, is_last: bool) -> Buffer | None:
        """The batch itself, a smaller one in its place, or `None`. `is_last`: of its new segment."""
        must_stay = is_last or self._last_batches.is_last(header)
        if header.is_control:
            return self._marker(header, batch, must_stay)
        if self._transactions.is_aborted(header) or header.record_count == 0:
            return _without_records(header, batch) if must_stay else None
        return self._data(header, batch, must_stay)

    def _marker(self, header: BatchHeader, batch: Buffer, must_stay: bool) -> Buffer | None:
        is_needless, aborted = self._transactions.end(header, batch)
        if aborted is not None:
            self.aborted.append(aborted)
        if not is_needless:
            return batch
        if header.record_count == 0 or self._is_past_horizon(header):
            return _without_records(header, batch) if must_stay else None
        if header.has_delete_horizon:
            return batch
        _, records = open_batch(batch, BATCH_BYTES_MAX)
        return self._with_horizon(header, records, header.record_count, header.max_timestamp)

    def _is_past_horizon(self, header: BatchHeader) -> bool:
        return header.has_delete_horizon and header.base_timestamp <= self._now_ms

    def _data(self, header: BatchHeader, batch: Buffer, must_stay: bool) -> Buffer | None:
        _, records = open_batch(batch, BATCH_BYTES_MAX)
        kept = self._choose(header, records)
        if kept.record_count == 0:
            return _without_records(header, batch) if must_stay else None
        needs_horizon = kept.has_tombstone and not header.has_delete_horizon
        if kept.record_count == header.record_count and not needs_horizon:
            return batch
        max_timestamp = header.max_timestamp
        if not header.attributes & LOG_APPEND_TIME_BIT:
            max_timestamp = header.base_timestamp + kept.timestamp_delta_max
        if needs_horizon:
            return self._with_horizon(header, kept.records, kept.record_count, max_timestamp)
        # The old base timestamp stays even if its record went: every delta is copied as it is.
        return _batch(header._replace(max_timestamp=max_timestamp, record_count=kept.record_count), kept.records)

    def _choose(self, header: BatchHeader, records: bytes) -> "_Kept":
        newest_of = self._newest.by_key.get
        base_offset = header.base_offset
        known_delta_max = self._newest.mapped_end_offset - base_offset  # From here on nothing is known: all stays.
        drops_tombstones = self._is_past_horizon(header)
        runs: list[bytes] = []
        run_start = run_end = 0
        count = 0
        timestamp_delta_max = -(2**63)
        has_tombstone = False
        for start, end, timestamp_delta, offset_delta, key, is_tombstone in walk_records(records, header.record_count):
            if offset_delta < known_delta_max:
                if key is None or (is_tombstone and drops_tombstones):
                    continue
                newest = newest_of(key if len(key) <= KEY_BYTES_MAX else digest(key))
                if newest is not None and newest > base_offset + offset_delta:
                    continue
            count += 1
            if timestamp_delta > timestamp_delta_max:
                timestamp_delta_max = timestamp_delta
            if is_tombstone:
                has_tombstone = True
            if start != run_end:
                runs.append(records[run_start:run_end])
                run_start = start
            run_end = end
        runs.append(records[run_start:run_end])
        return _Kept(b"".join(runs), count, timestamp_delta_max, has_tombstone)

    def _with_horizon(
        self, header: BatchHeader, records: bytes, record_count: int, max_timestamp: TimestampMs
    ) -> bytearray:
        """The horizon takes the place of the base timestamp, so every record's delta is written anew."""
        shift_ms = header.base_timestamp - self._new_horizon_ms
        shifted = b"".join(_shifted(records, record_count, shift_ms))
        new = header._replace(
            attributes=header.attributes | DELETE_HORIZON_BIT,
            base_timestamp=self._new_horizon_ms,
            max_timestamp=max_timestamp,
            record_count=record_count,
        )
        return _batch(new, shifted)


class _Kept(NamedTuple):
    records: bytes
    record_count: int
    timestamp_delta_max: int
    has_tombstone: bool


def _shifted(records: bytes, record_count: int, shift_ms: int) -> list[bytes]:
    parts: list[bytes] = []
    for start, end, timestamp_delta, _, _, _ in walk_records(records, record_count):
        body_at = start
        while records[body_at] >= 0x80:  # The length is computed anew.
            body_at += 1
        after_timestamp = body_at + 2
        while records[after_timestamp] >= 0x80:
            after_timestamp += 1
        attributes = records[body_at + 1 : body_at + 2]
        body = attributes + zigzag_varint(timestamp_delta + shift_ms) + records[after_timestamp + 1 : end]
        parts += (zigzag_varint(len(body)), body)
    return parts


def _without_records(header: BatchHeader, batch: Buffer) -> Buffer:
    if header.record_count == 0:
        return batch
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT)
    return _batch(header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0), b"")


def _batch(header: BatchHeader, records: bytes) -> bytearray:
    batch = bytearray(HEADER_BYTES)
    batch += compress(header.codec, records)
    HEADER.pack_into(batch, 0, *header._replace(batch_length=len(batch) - LENGTH_OVERHEAD_BYTES))
    set_crc(batch)
    return batch
