"""Batches of the metadata log: as consensus sees them at the start, and as the image replays them.

Everything here blocks, or reads what is cached. What cannot be read is committed and lost: the node stops.
"""

from collections.abc import Iterator
from typing import Final

from ottla.base.errors import ProtocolError, invariant, violated
from ottla.base.types import Offset
from ottla.log.partition_log import LogSlice, PartitionLog
from ottla.metadata.image import MetadataBatch
from ottla.metadata.records import decode_record
from ottla.raft.control_records import decode_batches
from ottla.raft.log_view import LogBatch
from ottla.wire.records import batches, check_crc, records_of

READ_BYTES: Final = 4 << 20


def bytes_of(region: LogSlice) -> bytes:
    return b"" if region.file is None else region.file.pread(region.size, region.position)


def log_batches(log: PartitionLog, offset: Offset) -> Iterator[LogBatch]:
    """All from `offset` on, without their bytes."""
    while offset < log.log_end_offset:
        start_offset = offset
        try:
            found = decode_batches(memoryview(bytes_of(log.read(offset, READ_BYTES))))
        except ProtocolError as error:
            violated("the metadata log can be read", offset=offset, reason=str(error))
        for batch in found:
            yield LogBatch(
                base_offset=batch.base_offset,
                record_count=batch.record_count,
                epoch=batch.epoch,
                control=batch.control,
            )
            offset = batch.end_offset
        invariant(offset > start_offset, "reading the metadata log goes on", offset=offset)


def metadata_batches(data: bytes, offset: Offset) -> list[MetadataBatch]:
    """Whole batches from `offset` on; control batches move the image without changing it."""
    found: list[MetadataBatch] = []
    try:
        for batch in batches(memoryview(data), stop_at_partial=True):
            check_crc(batch.view)
            header = batch.header
            if header.last_offset < offset:
                continue
            records = [] if header.is_control else [decode_record(record.value) for record in records_of(batch.view)]
            found.append(
                MetadataBatch(records, header.last_offset, header.partition_leader_epoch, header.max_timestamp)
            )
    except ProtocolError as error:
        violated("the committed metadata log can be read", offset=offset, reason=str(error))
    invariant(found, "committed metadata is in the log", offset=offset)
    return found
