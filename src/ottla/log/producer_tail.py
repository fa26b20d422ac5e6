"""The batches of producers from before a snapshot, which holds only the last of each: read back from the end of the log.

A producer has up to five batches in flight, and when its broker comes back it repeats all that were not acknowledged.
By the snapshot alone every one but the last would be out of order, which ends a client of librdkafka for good. So the
headers of the log's last batches are looked at where the log is opened or cut. Nothing but `batches` changes: same epoch,
sequences that lead to the snapshot's batch without a gap. What is read is bounded, and little where few producers write;
whoever wrote its last batch before that part has no repetition to expect.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.base.types import Offset, ProducerId
from ottla.log.batch_scan import scan_headers
from ottla.log.producer_state import BATCHES_KEPT, Producer, ProducerBatch, ProducerState
from ottla.log.segment import Segment
from ottla.wire.batch import SEQUENCE_MAX, BatchHeader

BLOCKS_MAX: Final = 64  # From one index entry to the next: 4 KiB of small batches, or a large one.
_CHUNK_BYTES: Final = 8 * 1024  # A block of small batches in one read.


class _Block(NamedTuple):
    segment: Segment
    position: int
    end: int
    offset: Offset  # None of its batches ends before it.


def recall_batches(state: ProducerState, segments: Sequence[Segment], end: int) -> None:
    """Blocking. `segments` are those with anything before the snapshot; `end` is where that ends in the last one."""
    wanted = {producer_id: producer for producer_id, producer in state.producers.items() if _lacks_batches(producer)}
    if not wanted:
        return
    blocks = _last_blocks(segments, end)
    wanted = {
        producer_id: producer
        for producer_id, producer in wanted.items()
        if producer.batches[-1].last_offset >= blocks[-1].offset
    }
    for segment, position, block_end, _ in blocks:
        if not wanted:
            return
        scanned = list(scan_headers(segment.handle(), position, block_end, chunk_bytes=_CHUNK_BYTES))
        for _, header in reversed(scanned):
            _recall(wanted, header)


def _lacks_batches(producer: Producer) -> bool:
    """A coordinator writes without sequences, and with sequence 0 an epoch begins."""
    batches = producer.batches
    return 0 < len(batches) < BATCHES_KEPT and batches[-1].last_sequence >= 0 and batches[0].base_sequence > 0


def _last_blocks(segments: Sequence[Segment], end: int) -> list[_Block]:
    """The last first."""
    blocks: list[_Block] = []
    for segment in reversed(segments):
        block_end = end if segment is segments[-1] else segment.size
        entries = segment.last_indexed(BLOCKS_MAX, before=block_end)
        if len(entries) < BLOCKS_MAX:
            entries.insert(0, (segment.base_offset, 0))
        for offset, position in reversed(entries):
            blocks.append(_Block(segment, position, block_end, offset))
            block_end = position
        if len(blocks) >= BLOCKS_MAX:
            break
    return blocks[:BLOCKS_MAX]


def _recall(wanted: dict[ProducerId, Producer], header: BatchHeader) -> None:
    producer = wanted.get(header.producer_id)
    if producer is None or header.is_control:
        return
    batches = producer.batches
    first = batches[0]
    if header.base_offset >= first.base_offset:
        return  # The snapshot's own.
    batch = ProducerBatch(
        header.base_sequence, header.last_sequence, header.base_offset, header.last_offset, header.max_timestamp
    )
    is_next = batch.base_sequence >= 0 and (batch.last_sequence + 1) & SEQUENCE_MAX == first.base_sequence
    if is_next and header.producer_epoch == producer.epoch:
        batches.insert(0, batch)
        if _lacks_batches(producer):
            return
    del wanted[header.producer_id]
