"""Walking the batches of a log file: by header when looking for something, by checksum when nothing is trusted.

A header scan reads a few kilobytes at a time and hops from header to header. A verifying scan reads everything and
stops where no whole batch begins. Both are generators over one file region and change nothing.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla.base.disk import File
from ottla.wire.batch import (
    BATCH_LENGTH_MIN,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    BatchHeader,
    compute_crc,
    parse_header,
)

SCAN_CHUNK_BYTES: Final = 4096  # One page: after an index lookup the batch is at most an index interval away.
VERIFY_CHUNK_BYTES: Final = 1024 * 1024


class ScannedBatch(NamedTuple):
    position: int
    header: BatchHeader


class VerifiedBatch(NamedTuple):
    position: int
    header: BatchHeader
    data: memoryview
    is_crc_valid: bool


def scan_headers(file: File, position: int, end: int, *, chunk_bytes: int = SCAN_CHUNK_BYTES) -> Iterator[ScannedBatch]:
    """The batches that lie whole within [position, end); stops at the first bytes that cannot be a header."""
    chunk = b""
    chunk_position = position
    while position + HEADER_BYTES <= end:
        at = position - chunk_position
        if at + HEADER_BYTES > len(chunk):
            chunk = file.pread(min(chunk_bytes, end - position), position)
            chunk_position, at = position, 0
            if len(chunk) < HEADER_BYTES:
                return
        header = parse_header(chunk, at)
        if header.batch_length < BATCH_LENGTH_MIN or header.magic != MAGIC:
            return
        next_position = position + header.batch_length + LENGTH_OVERHEAD_BYTES
        if next_position > end:
            return
        yield ScannedBatch(position, header)
        position = next_position


def scan_verified(file: File, position: int, end: int) -> Iterator[VerifiedBatch]:
    """Every batch from `position` on with the verdict on its checksum; stops where no whole batch begins."""
    chunk = memoryview(b"")
    chunk_position = position
    while position + HEADER_BYTES <= end:
        at = position - chunk_position
        if at + HEADER_BYTES > len(chunk):
            chunk = memoryview(file.pread(min(VERIFY_CHUNK_BYTES, end - position), position))
            chunk_position, at = position, 0
            if len(chunk) < HEADER_BYTES:
                return
        header = BatchHeader._make(HEADER.unpack_from(chunk, at))
        size_bytes = header.batch_length + LENGTH_OVERHEAD_BYTES
        if header.batch_length < BATCH_LENGTH_MIN or header.magic != MAGIC or position + size_bytes > end:
            return
        if at + size_bytes > len(chunk):
            chunk = memoryview(file.pread(max(min(VERIFY_CHUNK_BYTES, end - position), size_bytes), position))
            chunk_position, at = position, 0
        is_crc_valid = compute_crc(chunk, at, at + size_bytes) == header.crc
        yield VerifiedBatch(position, header, chunk[at : at + size_bytes], is_crc_valid)
        position += size_bytes
