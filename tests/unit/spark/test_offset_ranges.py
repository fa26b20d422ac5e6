"""Limits of a micro-batch and the division into tasks."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.base.types import TopicPartition
from ottla.spark.offset_ranges import OffsetRange, limit_bytes, limit_offsets, split

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def test_without_a_limit_everything_is_read() -> None:
    assert limit_offsets({A: 0, B: 5}, {A: 10, B: 5}, None) == {A: 10, B: 5}


def test_a_limit_is_shared_in_proportion_to_what_waits() -> None:
    assert limit_offsets({A: 0, B: 100}, {A: 900, B: 200}, 100) == {A: 90, B: 110}


def test_a_partition_with_little_still_gets_on() -> None:
    assert limit_offsets({A: 0, B: 0}, {A: 1_000_000, B: 1}, 10)[B] == 1


def test_bytes_are_estimated_by_each_partitions_records() -> None:
    limited = limit_bytes({A: 0, B: 0}, {A: 100, B: 100}, 5_500, {A: 100.0, B: 10.0})
    assert limited == {A: 50, B: 50}
    assert limit_bytes({A: 0}, {A: 100}, 512, {}) == {A: 1}


def test_a_large_range_is_split_by_bytes() -> None:
    ranges = split({A: 0, B: 7}, {A: 100, B: 7}, min_ranges=1, max_bytes=1000, bytes_per_offset={A: 40.0})
    assert ranges == [OffsetRange(A, 0, 25), OffsetRange(A, 25, 50), OffsetRange(A, 50, 75), OffsetRange(A, 75, 100)]


def test_a_skewed_topic_is_split_where_the_bytes_are() -> None:
    ranges = split({A: 0, B: 0}, {A: 10, B: 10}, min_ranges=4, max_bytes=1 << 30, bytes_per_offset={A: 900, B: 100})
    assert [len([one for one in ranges if one.partition == partition]) for partition in (A, B)] == [4, 1]


def test_nothing_to_read_is_no_task() -> None:
    assert split({A: 3}, {A: 3}, min_ranges=8, max_bytes=1, bytes_per_offset={}) == []


@given(
    st.dictionaries(
        st.builds(TopicPartition, st.sampled_from("ab"), st.integers(0, 3)),
        st.tuples(st.integers(0, 1000), st.integers(0, 1000), st.floats(0.5, 5000)),
    ),
    st.integers(1, 20),
    st.integers(1, 100_000),
)
def test_ranges_cover_every_offset_once(
    topics: dict[TopicPartition, tuple[int, int, float]], min_ranges: int, max_bytes: int
) -> None:
    start = {one: first for one, (first, _, _) in topics.items()}
    end = {one: first + count for one, (first, count, _) in topics.items()}
    sizes = {one: size for one, (_, _, size) in topics.items()}
    ranges = split(start, end, min_ranges=min_ranges, max_bytes=max_bytes, bytes_per_offset=sizes)
    for one in topics:
        edges = [(piece.start, piece.end) for piece in ranges if piece.partition == one]
        assert all(low < high for low, high in edges)
        joined = [start[one], *(high for _, high in edges)]
        assert [low for low, _ in edges] == joined[:-1]
        assert joined[-1] == end[one]
