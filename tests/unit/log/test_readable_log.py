"""Finding offsets: the scenes of the seeds (1, 2, 3), limits, watermarks, segments with gaps."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base.errors import ApiError, ErrorCode
from ottla.log.config import LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.wire.records import batches
from sim.disk import SimulatedDisk
from tests.unit.log.support import append, batch_of, batch_of_bytes, first_header, new_disk, open_log


def reopened(disk: SimulatedDisk, log: PartitionLog, config: LogConfig) -> PartitionLog:
    """The same log with nothing in memory: no indexes, no recent positions."""
    log.close()
    return open_log(disk, config, clean_shutdown=True)


def calls_since(disk: SimulatedDisk, count_before: int) -> list[str]:
    return list(disk.trace.recent)[count_before - disk.trace.event_count :]


def test_scene_1_offset_1500_in_segment_1000_to_1999() -> None:
    disk = new_disk()
    config = LogConfig(index_interval_bytes=400)
    log = open_log(disk, config)
    for number in range(300):
        if number % 100 == 0:
            log.roll()
        append(log, batch_of(10))
    log = reopened(disk, log, config)
    assert [segment.base_offset for segment in log.segments] == [0, 1000, 2000]
    before = disk.trace.event_count
    piece = log.read(1500, 1 << 20)
    calls = calls_since(disk, before)
    assert piece.first_offset == 1500
    files = {call.split()[1] for call in calls}
    assert {name.rpartition("/")[2] for name in files} == {
        "00000000000000001000.index",
        "00000000000000001000.timeindex",
        "00000000000000001000.log",
    }
    assert len([call for call in calls if call.startswith("pread")]) == 1, "one page behind the index entry is enough"


def test_scene_2_offset_15_with_entries_0_12_24() -> None:
    """Batches of 4, 3 and 5 KB with twelve records each: the greatest entry at or below the target is chosen."""
    disk = new_disk()
    config = LogConfig(index_interval_bytes=2048)
    log = open_log(disk, config)
    for size_bytes in (4096, 3072, 5120):
        append(log, batch_of_bytes(size_bytes, 12))
    log = reopened(disk, log, config)
    offset_index, _ = log.active_segment.indexes()
    assert offset_index.entries() == [(23, 4096), (35, 7168)], (
        "entries carry the last offset of the batch they point at"
    )
    assert offset_index.floor_position(15) == 0
    piece = log.read(15, 100)
    assert (piece.first_offset, piece.position, piece.size) == (12, 4096, 3072)


def test_scene_3_offset_1500042_over_two_segments() -> None:
    disk = new_disk()
    config = LogConfig(index_interval_bytes=4096)
    log = open_log(disk, config, log_start_offset=1_498_000)
    for number in range(400):
        if number == 200:
            log.roll()
        append(log, batch_of(10))
    log = reopened(disk, log, config)
    assert [segment.base_offset for segment in log.segments] == [1_498_000, 1_500_000]
    before = disk.trace.event_count
    assert first_header(log, 1_500_042).base_offset == 1_500_040
    reads = [call for call in calls_since(disk, before) if call.startswith("pread")]
    assert len(reads) <= 3, "at most two seeks, and the test's own look at the header"


def test_every_offset_is_found_whatever_the_batches() -> None:
    @settings(max_examples=25, deadline=None)
    @given(
        st.lists(st.tuples(st.integers(1, 5), st.integers(0, 700)), min_size=1, max_size=60),
        st.integers(1, 3000),
        st.booleans(),
    )
    def check(sizes: list[tuple[int, int]], index_interval_bytes: int, is_reopened: bool) -> None:
        disk = new_disk()
        config = LogConfig(index_interval_bytes=index_interval_bytes, segment_bytes=6000)
        log = open_log(disk, config)
        holders = []  # For each offset the base offset of its batch.
        for record_count, value_bytes in sizes:
            result = append(log, batch_of(record_count, value_bytes=value_bytes))
            holders += [result.base_offset] * record_count
        if is_reopened:
            log = reopened(disk, log, config)
        assert [first_header(log, offset).base_offset for offset in range(len(holders))] == holders

    check()


def test_the_ends_of_the_log() -> None:
    log = open_log(new_disk())
    append(log, batch_of(5))
    log.delete_records_before(2)
    for offset in (-1, 0, 1, 6):
        with pytest.raises(ApiError) as refused:
            log.read(offset, 100)
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.read(5, 100).size == 0, "at the end there is nothing yet, and nothing wrong"
    assert log.read(2, 1000).first_offset == 0, "an offset inside a batch gets the whole batch"


def test_a_first_batch_over_the_limit_is_returned_whole() -> None:
    log = open_log(new_disk())
    append(log, batch_of_bytes(3000))
    append(log, batch_of_bytes(500))
    assert log.read(0, 100).size == 3000
    assert log.read(0, 100, min_one_batch=False).size == 0
    assert log.read(0, 3200).size == 3000, "a later batch is not cut where its beginning is known"
    assert log.read(0, 3500).size == 3500


@pytest.mark.parametrize("is_recent", [True, False])
def test_nothing_beyond_the_watermark_is_returned(is_recent: bool) -> None:
    disk = new_disk()
    config = LogConfig(segment_bytes=1500)
    log = open_log(disk, config)
    for _ in range(10):
        append(log, batch_of_bytes(500, 2))
    if not is_recent:
        log = reopened(disk, log, config)
    for high_watermark in range(0, 21, 2):
        seen = 0
        while (piece := log.read(seen, 1 << 20, up_to_offset=high_watermark)).size:
            assert piece.file is not None
            data = memoryview(piece.file.pread(piece.size, piece.position))
            seen = [batch.header.next_offset for batch in batches(data)][-1]
        assert seen == high_watermark
    assert log.read(3, 1 << 20, up_to_offset=3).size == 0, "a watermark inside a batch hides the batch"


def test_a_reader_at_the_end_of_a_compacted_segment_goes_on_in_the_next() -> None:
    disk = new_disk()
    log = open_log(disk)
    append(log, batch_of(5))
    append(log, batch_of(5))
    log.roll()
    append(log, batch_of(5))
    first = next(iter(log.segments))
    first.truncate(5)  # As compaction does: the end of the segment is gone, the next one starts where it did.
    assert log.read(7, 1 << 20).first_offset == 10


def test_a_slice_keeps_its_file_while_the_cache_forgets_it() -> None:
    disk = new_disk()
    log = open_log(disk)
    append(log, batch_of(5))
    piece = log.read(0, 1 << 20)
    log.active_segment.release_handle()
    assert not log.is_recent(0), "the file would have to be opened"
    assert piece.file is not None
    assert len(piece.file.pread(piece.size, piece.position)) == piece.size
    assert log.read(0, 1 << 20).size == piece.size


def test_recent_positions_are_bounded_and_agree_with_the_index() -> None:
    log = open_log(new_disk())
    for _ in range(1000):
        append(log, batch_of(2))
    assert log.is_recent(1999)
    assert not log.is_recent(0)
    assert log.is_recent(2000)
    assert [first_header(log, offset).base_offset for offset in range(0, 2000, 7)] == [
        offset // 2 * 2 for offset in range(0, 2000, 7)
    ]
