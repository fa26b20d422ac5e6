"""A broker's files, looked at from outside: every batch of a partition, and the verdict of `ottla log dump`."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ottla.wire.records import BatchHeader, batches, is_crc_valid, records_of


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOnDisk:
    path: Path
    position: int
    header: BatchHeader
    is_intact: bool


def segments_of(data_dir: Path, topic: str, partition: int) -> list[Path]:
    return sorted((data_dir / f"{topic}-{partition}").glob("*.log"))


def batches_on_disk(data_dir: Path, topic: str, partition: int) -> Iterator[BatchOnDisk]:
    """In the order of their segments. A segment that does not end with a whole batch raises ProtocolError."""
    for path in segments_of(data_dir, topic, partition):
        for batch in batches(memoryview(path.read_bytes())):
            yield BatchOnDisk(
                path=path, position=batch.position, header=batch.header, is_intact=is_crc_valid(batch.view)
            )


def require_sound_files(data_dir: Path, topic: str, partition: int) -> int:
    """Batches join without a hole from 0 on and match their checksums; `ottla log dump` agrees. Counts segments."""
    next_offset = 0
    for batch in batches_on_disk(data_dir, topic, partition):
        where = f"{batch.path} at {batch.position}"
        assert batch.is_intact, f"{where}: wrong checksum"
        assert batch.header.base_offset == next_offset, f"{where}: {batch.header.base_offset}, expected {next_offset}"
        next_offset = batch.header.next_offset
    segments = segments_of(data_dir, topic, partition)
    for path in segments:
        require_records_match(path)
    dump = dumped(data_dir / f"{topic}-{partition}")
    assert dump.returncode == 0, dump.stdout[-2_000:] + dump.stderr[-2_000:]
    return len(segments)


def require_records_match(path: Path) -> None:
    """Each batch holds as many records as its header says, at the offsets that it says."""
    for batch in batches(memoryview(path.read_bytes())):
        offsets = [record.offset for record in records_of(batch.view)]
        assert offsets == list(range(batch.header.base_offset, batch.header.next_offset)), f"{path}: {batch.header}"


def dumped(directory: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "ottla.cli.main", "log", "dump", "--count", "1", str(directory)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
