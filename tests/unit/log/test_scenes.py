"""The seeds' look-ups number for number (scenes 1, 2, 3) and recovery from a bit flipped anywhere in a batch (scene 8).

`docs/FEATURES.md` lists every scene with its tests; those about one partition and not here are beside the code they show.
"""

import logging
from array import array
from math import ceil, log2

import pytest

from ottla.log.batch_scan import SCAN_CHUNK_BYTES
from ottla.log.config import LogConfig
from ottla.log.offset_index import OffsetIndex
from ottla.log.partition_log import PartitionLog
from sim.disk import SimulatedDisk
from tests.unit.log.support import (
    DIRECTORY,
    append,
    batch_of,
    batch_of_bytes,
    first_header,
    headers_of,
    new_disk,
    open_log,
)

INDEX_INTERVAL_BYTES = 4096  # The seeds' "entry every 4 KB".
CONFIG = LogConfig(index_interval_bytes=INDEX_INTERVAL_BYTES)


class CountedProbes:
    """A list of an index that counts how often a search looks into it."""

    def __init__(self, values: "array[int]") -> None:
        self._values = values
        self.count = 0

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, slot: int) -> int:
        self.count += 1
        return self._values[slot]


def append_batches(log: PartitionLog, count: int, records_each: int) -> None:
    template = bytes(batch_of(records_each))  # Offsets are set in place, so each append gets bytes of its own.
    for _ in range(count):
        append(log, memoryview(bytearray(template)))


def reopened(disk: SimulatedDisk, log: PartitionLog) -> PartitionLog:
    """The same log with nothing in memory: neither indexes nor positions of recent appends."""
    log.close()
    return open_log(disk, CONFIG, clean_shutdown=True)


def test_scene_01_offset_1500_takes_log_n_probes_and_scans_one_interval() -> None:
    disk = new_disk()
    log = open_log(disk, CONFIG)
    for _ in range(3):
        log.roll()
        append_batches(log, count=1000, records_each=1)
    log = reopened(disk, log)
    segment = log.segments.floor(1500)
    assert segment.base_offset == 1000
    index, _ = segment.indexes()
    entry_count = len(index)
    assert entry_count > 15, "too few entries to tell a search from a scan"
    start, following = index.bracket(500)
    batch_bytes = segment.size // 1000
    assert following - start <= INDEX_INTERVAL_BYTES + 2 * batch_bytes, "what is left to scan is one interval"

    probes = CountedProbes(index._relative_offsets)
    index._relative_offsets = probes  # type: ignore[assignment]
    assert log.read(1500, 1 << 20).first_offset == 1500
    assert 0 < probes.count <= ceil(log2(entry_count + 1)), f"{probes.count} probes among {entry_count} entries"


def test_scene_02_offset_15_is_looked_up_from_the_entry_of_12() -> None:
    index = OffsetIndex()
    for offset, position in ((0, 0), (12, 4096), (24, 7168)):
        index.append(offset, position)
    assert {offset: index.floor_position(offset) for offset in (0, 11, 12, 15, 23, 24, 99)} == {
        0: 0,
        11: 0,
        12: 4096,
        15: 4096,
        23: 4096,
        24: 7168,
        99: 7168,
    }


def test_scene_02_every_offset_of_the_three_batches_gets_a_batch_that_holds_it() -> None:
    disk = new_disk()
    config = LogConfig(index_interval_bytes=2048)  # So that each of the three is near an entry.
    log = open_log(disk, config)
    for size_bytes in (4096, 3072, 5120):
        append(log, batch_of_bytes(size_bytes, 12))
    log = reopened(disk, log)
    assert [first_header(log, offset).base_offset for offset in range(36)] == [0] * 12 + [12] * 12 + [24] * 12


def test_scene_03_offset_1500042_in_the_segment_of_1000000() -> None:
    """Two seeks, one into the index and one into the log, and then less than 42 batches to scan."""
    disk = new_disk()
    log = open_log(disk, CONFIG)
    append_batches(log, count=100, records_each=10_000)
    log.roll()
    append_batches(log, count=49, records_each=10_000)
    append_batches(log, count=20_000 // 7, records_each=7)  # The neighbourhood of 1,500,042, in small batches.
    append_batches(log, count=49, records_each=10_000)
    log = reopened(disk, log)
    assert [segment.base_offset for segment in log.segments] == [0, 1_000_000]
    assert log.log_end_offset > 1_990_000

    before = disk.trace.event_count
    piece = log.read(1_500_042, 1 << 20)
    calls = [call.split() for call in list(disk.trace.recent)[before - disk.trace.event_count :]]
    assert piece.file is not None
    assert piece.first_offset <= 1_500_042 < piece.first_offset + 7
    assert {path.rpartition("/")[2].partition(".")[0] for _, path, *_ in calls} == {"00000000000001000000"}
    pieces_read = [path for name, path, *_ in calls if name == "pread" and path.endswith(".log")]
    assert 1 <= len(pieces_read) <= 2, f"{len(pieces_read)} pieces of {SCAN_CHUNK_BYTES} bytes"
    assert sum(name == "read" and path.endswith(".index") for name, path, *_ in calls) == 1


# Scene 8: a bit flipped in a .log. What lies below the recovery point: test_recovery.py; followers: test_appendable_log.py

BATCH_COUNT = 10
ROTTEN = 6
BYTES_OF_A_BATCH = {"length": 10, "magic": 16, "checksum": 17, "attributes": 22, "count": 60, "records": 75}


def flip(disk: SimulatedDisk, position: int) -> None:
    file = disk.open(f"{DIRECTORY}/00000000000000000000.log")
    file.pwrite(bytes([file.pread(1, position)[0] ^ 0b100]), position)
    file.close()


def written(disk: SimulatedDisk) -> list[int]:
    """A log of ten batches as a crashed broker leaves it; answers where each begins."""
    log = open_log(disk, CONFIG)
    positions = []
    for _ in range(BATCH_COUNT):
        positions.append(log.active_segment.size)
        append(log, batch_of(5))
    log.flush()
    return positions


@pytest.mark.parametrize("at", BYTES_OF_A_BATCH.values(), ids=BYTES_OF_A_BATCH.keys())
def test_scene_08_recovery_cuts_in_front_of_a_flipped_bit_and_names_it(
    at: int, caplog: pytest.LogCaptureFixture
) -> None:
    disk = new_disk()
    position = written(disk)[ROTTEN]
    flip(disk, position + at)
    with caplog.at_level(logging.WARNING):
        recovered = open_log(disk, CONFIG, clean_shutdown=False, recovery_point=0)
    assert recovered.log_end_offset == 5 * ROTTEN
    assert [header.base_offset for header in headers_of(recovered)] == list(range(0, 5 * ROTTEN, 5))
    named = f"cutting {DIRECTORY}/00000000000000000000.log at position {position} (offset {5 * ROTTEN})"
    assert named in caplog.text
    assert append(recovered, batch_of()).base_offset == 5 * ROTTEN
