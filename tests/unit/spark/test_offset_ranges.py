"""Limits of a micro-batch and the division into tasks."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ottla.base.types import Offset, TopicPartition
from ottla.spark.byte_profile import COUNTED_BYTES_MAX, BatchesFrom, Look, LookAt, flat_profile
from ottla.spark.offset_ranges import OffsetRange, limit_bytes, limit_offsets, split

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Records:
    """Logs with one record a batch, of known sizes; counts the bytes that were fetched to know them."""

    def __init__(self, sizes: dict[TopicPartition, list[int]]) -> None:
        self.fetched_bytes = 0
        self._sizes = sizes

    def look_at(self, partition: TopicPartition) -> LookAt:
        return lambda offset: Look(offset, offset + 1, self._fetched(partition, offset))

    def batches_from(self, partition: TopicPartition, wanted_bytes: float) -> BatchesFrom:
        return lambda offset: [Look(offset, offset + 1, self._fetched(partition, offset))]

    def _fetched(self, partition: TopicPartition, offset: Offset) -> int:
        self.fetched_bytes += self._sizes[partition][offset]
        return self._sizes[partition][offset]


def looking(**record_bytes: int) -> Records:
    """All of a size in each partition."""
    return Records({A: [record_bytes["a"]] * 100, B: [record_bytes["b"]] * 100})


def test_without_a_limit_everything_is_read() -> None:
    assert limit_offsets({A: 0, B: 5}, {A: 10, B: 5}, None) == {A: 10, B: 5}


def test_a_limit_is_shared_in_proportion_to_what_waits() -> None:
    assert limit_offsets({A: 0, B: 100}, {A: 900, B: 200}, 100) == {A: 90, B: 110}


@given(st.lists(st.integers(0, 1_000), min_size=1, max_size=8), st.integers(1, 500))
@example([0, 5, 5], 9)
def test_a_limit_of_offsets_is_never_exceeded_and_always_reached(waiting: list[int], max_offsets: int) -> None:
    end = {TopicPartition("t", index): count for index, count in enumerate(waiting)}
    limited = limit_offsets(dict.fromkeys(end, 0), end, max_offsets)
    assert sum(limited.values()) == min(max_offsets, sum(waiting))
    assert all(limited[one] <= end[one] for one in end)


def test_a_partition_with_little_still_gets_on() -> None:
    assert limit_offsets({A: 0, B: 0}, {A: 1_000_000, B: 1}, 10)[B] == 1


def test_bytes_are_those_of_each_partitions_records() -> None:
    limited = limit_bytes({A: 0, B: 0}, {A: 100, B: 100}, 5_500, looking(a=100, b=10))
    assert limited == {A: 50, B: 50}


def test_a_limit_smaller_than_a_record_is_one_record() -> None:
    assert limit_bytes({A: 0}, {A: 100}, 50, looking(a=100, b=10)) == {A: 1}


def test_what_is_below_the_limit_is_read_whole() -> None:
    assert limit_bytes({A: 0, B: 7}, {A: 100, B: 7}, 10_000, looking(a=100, b=10)) == {A: 100, B: 7}


@pytest.mark.parametrize(
    ("burst_start", "burst_end", "large_bytes"), [(15_001, 15_100, 100_000), (9_001, 9_200, 50_000)]
)
@pytest.mark.parametrize("limit_mb", [1, 2, 20])
def test_a_short_run_of_large_records_is_not_passed_over(
    burst_start: Offset, burst_end: Offset, large_bytes: int, limit_mb: int
) -> None:
    sizes = [large_bytes if burst_start <= offset < burst_end else 100 for offset in range(20_000)]
    start, batches = 0, []
    while start < len(sizes):
        end = limit_bytes({A: start}, {A: len(sizes)}, limit_mb * 1_000_000, Records({A: sizes}))[A]
        batches.append(sum(sizes[start:end]))
        start = end
    assert max(batches) <= limit_mb * 1_000_000 + large_bytes
    assert min(batches[:-1], default=0) >= limit_mb * 750_000 or len(batches) == 1


def test_no_more_than_the_limit_is_fetched_to_find_a_small_one() -> None:
    records = Records({A: [1_000] * 100_000, B: [10] * 100_000})
    limit_bytes({A: 0, B: 0}, {A: 100_000, B: 100_000}, 1_000_000, records)
    assert records.fetched_bytes < 1_250_000


def test_a_large_limit_is_found_by_looking_at_few_places() -> None:
    records = Records({A: [1_000] * 100_000})
    limit_bytes({A: 0}, {A: 100_000}, COUNTED_BYTES_MAX + 1, records)
    assert records.fetched_bytes < 100_000


def test_what_has_gone_is_passed_over() -> None:
    """Nothing can be fetched at the first offsets: retention took them since the query stood there."""

    class Shortened(Records):
        def look_at(self, partition: TopicPartition) -> LookAt:
            return lambda offset: Look(offset, offset + 1, 0 if offset < 50 else 10)

        def batches_from(self, partition: TopicPartition, wanted_bytes: float) -> BatchesFrom:
            return lambda offset: [] if offset < 50 else [Look(offset, offset + 1, 10)]

    ends = [limit_bytes({A: start}, {A: 100}, 100, Shortened({}))[A] for start in (0, 50)]
    assert ends[0] > 0
    assert ends[1] == 60


def test_a_large_range_is_split_by_bytes() -> None:
    ranges = split({A: flat_profile(0, 100, 40.0)}, min_ranges=1, max_bytes=1000)
    assert ranges == [OffsetRange(A, 0, 25), OffsetRange(A, 25, 50), OffsetRange(A, 50, 75), OffsetRange(A, 75, 100)]


def test_a_skewed_topic_is_split_where_the_bytes_are() -> None:
    profiles = {A: flat_profile(0, 10, 900.0), B: flat_profile(0, 10, 100.0)}
    ranges = split(profiles, min_ranges=4, max_bytes=1 << 30)
    assert [len([one for one in ranges if one.partition == partition]) for partition in (A, B)] == [4, 1]


def test_nothing_to_read_is_no_task() -> None:
    assert split({}, min_ranges=8, max_bytes=1) == []


@given(
    st.dictionaries(
        st.builds(TopicPartition, st.sampled_from("ab"), st.integers(0, 3)),
        st.tuples(st.integers(0, 1000), st.integers(1, 1000), st.floats(0, 5000)),
    ),
    st.integers(1, 20),
    st.integers(1, 100_000),
)
def test_ranges_cover_every_offset_once(
    topics: dict[TopicPartition, tuple[Offset, int, float]], min_ranges: int, max_bytes: int
) -> None:
    profiles = {one: flat_profile(first, first + count, size) for one, (first, count, size) in topics.items()}
    ranges = split(profiles, min_ranges=min_ranges, max_bytes=max_bytes)
    for one, (first, count, _) in topics.items():
        edges = [(piece.start, piece.end) for piece in ranges if piece.partition == one]
        assert all(low < high for low, high in edges)
        joined = [first, *(high for _, high in edges)]
        assert [low for low, _ in edges] == joined[:-1]
        assert joined[-1] == first + count
