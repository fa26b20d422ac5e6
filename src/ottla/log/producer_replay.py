"""Producer state from batches that are already in the log: for followers, recovery and truncation.

No rule is checked here; the leader did that before it wrote them. Control batches are the one place where the log looks
into a batch: a marker's one record says whether its transaction committed.
"""

import struct
from typing import Final

from ottla.base.disk import Buffer, File
from ottla.base.types import Offset
from ottla.log.batch_scan import scan_headers
from ottla.log.producer_state import CompletedTransaction, ProducerBatch, ProducerState
from ottla.wire.batch import BatchHeader
from ottla.wire.records import ControlType, control_type_of, records_of

_MARKER_VALUE: Final = struct.Struct(">hi")  # version, coordinator epoch
_REPLAY_CHUNK_BYTES: Final = 64 * 1024


def apply_batch(state: ProducerState, header: BatchHeader, batch: Buffer) -> CompletedTransaction | None:
    """Takes one appended batch into the state; `batch` is looked at only if it is a marker."""
    if header.producer_id < 0:
        return None
    if header.is_control:
        return apply_marker(state, header, batch)
    state.update(
        header.producer_id,
        header.producer_epoch,
        ProducerBatch(
            header.base_sequence, header.last_sequence, header.base_offset, header.last_offset, header.max_timestamp
        ),
        header.is_transactional,
    )
    return None


def apply_marker(state: ProducerState, header: BatchHeader, batch: Buffer) -> CompletedTransaction | None:
    record = next(records_of(batch), None)
    if record is None:  # Compaction has removed the marker of a transaction that is gone entirely.
        return None
    control_type = control_type_of(record.key)
    if control_type not in (ControlType.COMMIT, ControlType.ABORT):
        return None
    _, coordinator_epoch = _MARKER_VALUE.unpack_from(record.value or b"\0" * _MARKER_VALUE.size)
    return state.complete(
        header.producer_id,
        header.producer_epoch,
        coordinator_epoch=coordinator_epoch,
        offset=header.base_offset,
        timestamp=record.timestamp,
        is_aborted=control_type is ControlType.ABORT,
    )


def replay_file(state: ProducerState, file: File, position: int, end: int, from_offset: Offset) -> None:
    """Takes in the batches of a file region that begin at or after `from_offset`, by their headers."""
    for at, header in scan_headers(file, position, end, chunk_bytes=_REPLAY_CHUNK_BYTES):
        if header.base_offset >= from_offset and header.producer_id >= 0:
            apply_batch(state, header, file.pread(header.size_bytes, at) if header.is_control else b"")
