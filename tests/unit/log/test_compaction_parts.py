"""The parts of compaction by themselves: walking records, remembering keys, grouping segments, deciding."""

from dataclasses import replace

import pytest

from ottla.base.errors import ProtocolError
from ottla.log.compaction.clean import group_segments
from ottla.log.compaction.job import CleaningJob, SourceSegment
from ottla.log.compaction.newest_offsets import NewestOffsets
from ottla.log.compaction.plan import Cleanable, find_cleanable, first_dirty_offset
from ottla.log.compaction.record_walk import walk_records
from ottla.log.partition_log import PartitionLog
from ottla.wire.record_reader import open_batch
from ottla.wire.records import BatchBuilder
from sim.log_scenario import with_config
from tests.unit.log.compaction_support import COMPACTED, History, seal
from tests.unit.log.support import NOW_MS, new_disk, open_log

JOB = CleaningJob(
    directory="/logs/users-0",
    segments=(),
    first_dirty_offset=0,
    aborted=(),
    producers={},
    now_ms=NOW_MS,
    delete_retention_ms=1,
    segment_bytes=1_000,
    segment_index_bytes=1 << 20,
    index_interval_bytes=4096,
    buffer_bytes=1 << 20,
    bytes_per_second_max=1e300,
)


def records(*pairs: tuple[bytes | None, bytes | None]) -> bytes:
    builder = BatchBuilder()
    for number, (key, value) in enumerate(pairs):
        builder.append(NOW_MS + 10_000 * number, key, value, [("name", b"value")])
    return open_batch(builder.build(), 1 << 30)[1]


# Walking


def test_records_of_every_length_are_walked() -> None:
    sizes = (0, 1, 60, 63, 64, 100, 8_191, 8_192, 20_000)
    pairs = [(b"k" * key_bytes, b"v" * value_bytes) for key_bytes in sizes for value_bytes in sizes]
    data = records(*pairs)
    walked = list(walk_records(data, len(pairs)))
    assert [(offset_delta, key) for _, _, _, offset_delta, key, _ in walked] == [
        (number, key) for number, (key, _) in enumerate(pairs)
    ]
    assert [delta for _, _, delta, _, _, _ in walked] == [10_000 * number for number in range(len(pairs))]
    assert [start for start, *_ in walked] == [0, *(end for _, end, *_ in walked)][:-1]


def test_null_keys_and_values_are_told_from_empty_ones() -> None:
    walked = list(walk_records(records((None, b""), (b"", None), (b"", b"")), 3))
    assert [(key, is_tombstone) for *_, key, is_tombstone in walked] == [(None, False), (b"", True), (b"", False)]


def test_bytes_that_are_no_records_are_a_protocol_error() -> None:
    data = records((b"key", b"value"), (b"another", b"value"))
    for cut in range(len(data)):
        with pytest.raises(ProtocolError):
            list(walk_records(data[:cut], 2))
    with pytest.raises(ProtocolError, match="left"):
        list(walk_records(data, 1))
    with pytest.raises(ProtocolError, match="ten bytes"):
        list(walk_records(b"\xff" * 30, 1))


# Keys


def test_long_keys_are_told_apart_and_never_taken_for_short_ones() -> None:
    newest = NewestOffsets(1 << 20, 0)
    long = [b"k" * 40 + b"%d" % number for number in range(3)]
    newest.add(walk_records(records(*((key, b"") for key in (*long, b"k" * 32, b"k" * 33, long[0]))), 6), 100)
    assert sorted(newest.by_key.values()) == [101, 102, 103, 104, 105]
    assert {len(key) for key in newest.by_key} == {32, 33}


# Grouping


def source(base_offset: int, size_bytes: int, end_offset: int) -> SourceSegment:
    return SourceSegment(base_offset=base_offset, size_bytes=size_bytes, end_offset=end_offset)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([400, 400, 400], [2, 1]),
        ([1_000, 1, 999], [1, 2]),
        ([2_000, 10], [1, 1]),
        ([0, 0, 0], [3]),
    ],
)
def test_neighbours_are_joined_up_to_the_size_of_a_segment(sizes: list[int], expected: list[int]) -> None:
    segments = tuple(source(10 * number, size, 10 * number + 10) for number, size in enumerate(sizes))
    groups = group_segments(replace(JOB, segments=segments), 1_000)
    assert [len(group) for group in groups] == expected


def test_a_segment_never_spans_more_offsets_than_its_index_can_name() -> None:
    segments = (source(0, 10, 2**30), source(2**30, 10, 2**31), source(2**31, 10, 2**31 + 5))
    groups = group_segments(replace(JOB, segments=segments), 2**40)
    assert [[segment.base_offset for segment in group] for group in groups] == [[0], [2**30, 2**31]]


def test_the_index_limits_a_segment_too() -> None:
    segments = tuple(source(number, 300, number + 1) for number in range(4))
    job = replace(JOB, segments=segments, segment_index_bytes=12 * 6, index_interval_bytes=100)
    assert [len(group) for group in group_segments(job, 10)] == [2, 2]


def test_segments_behind_what_was_mapped_are_left_alone() -> None:
    segments = tuple(source(10 * number, 10, 10 * number + 10) for number in range(5))
    groups = group_segments(replace(JOB, segments=segments), 21)
    assert [segment.base_offset for group in groups for segment in group] == [0, 10, 20]


# Deciding


def sealed_log(**config: object) -> PartitionLog:
    """Three sealed segments of one batch each, ten minutes apart."""
    history = History(open_log(new_disk(), with_config(COMPACTED, **config)))
    for number in range(3):
        history.now_ms = NOW_MS + 600_000 * number
        history.write((b"a", b"x" * 100))
        seal(history.log)
    return history.log


def cleanable(log: PartitionLog, *, dirty: int = 0, limit: int = 3, later_ms: int = 1_200_000) -> Cleanable | None:
    return find_cleanable(
        list(log.segments), log.config, first_dirty_offset=dirty, limit=limit, now_ms=NOW_MS + later_ms
    )


def test_the_dirty_share_is_of_the_bytes_that_may_be_cleaned() -> None:
    found = cleanable(sealed_log(), dirty=1)
    assert found is not None
    assert (found.end_offset, found.first_dirty_offset, round(found.dirty_share, 2)) == (3, 1, 0.67)
    assert found.is_due(with_config(COMPACTED, min_cleanable_dirty_ratio=0.6))
    assert not found.is_due(with_config(COMPACTED, min_cleanable_dirty_ratio=0.7))


def test_nothing_is_due_where_nothing_is_dirty_or_stable() -> None:
    assert cleanable(sealed_log(), dirty=3) is None
    assert cleanable(sealed_log(), limit=0) is None
    half = cleanable(sealed_log(), limit=2)
    assert half is not None and half.end_offset == 2


def test_min_lag_stops_at_the_first_young_segment() -> None:
    found = cleanable(sealed_log(min_compaction_lag_ms=700_000))
    assert found is not None and found.end_offset == 1


def test_max_lag_makes_a_clean_enough_log_due() -> None:
    clean_enough = with_config(COMPACTED, min_cleanable_dirty_ratio=0.9)
    log = sealed_log(max_compaction_lag_ms=300_000)
    found = cleanable(log, dirty=2, later_ms=1_400_000)
    assert found is not None and not found.is_due(clean_enough)
    found = cleanable(log, dirty=2, later_ms=1_500_001)
    assert found is not None and found.is_due(clean_enough)


@pytest.mark.parametrize(("checkpoint", "expected"), [(None, 0), (2, 2), (99, 0), (3, 3)])
def test_a_checkpoint_of_another_log_counts_for_nothing(checkpoint: int | None, expected: int) -> None:
    assert first_dirty_offset(sealed_log(), checkpoint) == expected
