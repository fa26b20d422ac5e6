"""A reader of segment files that shares nothing with Ottla: thirty lines over the record batch's published layout.

The suite looks at what lies on disk with it, to see the codec that was stored rather than the value that came back.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# baseOffset batchLength partitionLeaderEpoch magic crc attributes lastOffsetDelta baseTimestamp maxTimestamp
# producerId producerEpoch baseSequence recordCount
BATCH_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
LOG_OVERHEAD_BYTES: Final = 12
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
CODEC_MASK, LOG_APPEND_TIME_BIT = 0x07, 0x08


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBatch:
    base_offset: int
    size_bytes: int
    codec: str
    log_append_time: bool
    producer_id: int
    base_sequence: int
    record_count: int


def batches_on_disk(data_dir: Path, topic: str, partition: int = 0) -> list[StoredBatch]:
    """Every batch of a partition, in the order of its segments."""
    name = f"{topic}-{partition}"
    # Other tests' topics are deleted meanwhile: `os.walk` passes over what is gone.
    directories = [Path(at) / name for at, names, _ in os.walk(data_dir) if name in names]
    assert len(directories) == 1, f"{name} lies in {directories}"
    segments = sorted(directories[0].glob("*.log"))
    return [batch for segment in segments for batch in _batches(segment.read_bytes())]


def _batches(data: bytes) -> Iterator[StoredBatch]:
    position = 0
    while position + BATCH_HEADER.size <= len(data):
        fields = BATCH_HEADER.unpack_from(data, position)
        base_offset, length, _, magic, _, attributes, _, _, _, producer_id, _, base_sequence, record_count = fields
        if length <= 0:  # Kafka keeps room in a file that it has not written yet.
            return
        assert magic == 2, f"magic {magic} at {position}"
        yield StoredBatch(
            base_offset=base_offset,
            size_bytes=length + LOG_OVERHEAD_BYTES,
            codec=CODECS[attributes & CODEC_MASK],
            log_append_time=bool(attributes & LOG_APPEND_TIME_BIT),
            producer_id=producer_id,
            base_sequence=base_sequence,
            record_count=record_count,
        )
        position += length + LOG_OVERHEAD_BYTES
