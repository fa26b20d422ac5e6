"""Limits of a micro-batch and the division into tasks."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from ottla.base.types import Offset, TopicPartition
from ottla.spark.byte_profile import Look, LookAt, flat_profile
from ottla.spark.offset_ranges import OffsetRange, limit_bytes, limit_offsets, split

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def looking(**record_bytes: int) -> Callable[[TopicPartition], LookAt]:
    """Logs with one record a batch, all of a size in each partition."""
    sizes = {A: record_bytes["a"], B: record_bytes["b"]}

    def look_at(partition: TopicPartition) -> LookAt:
        return lambda offset: Look(offset, offset + 1, sizes[partition])

    return look_at


def test_without_a_limit_everything_is_read() -> None:
    assert limit_offsets({A: 0, B: 5}, {A: 10, B: 5}, None) == {A: 10, B: 5}


def test_a_limit_is_shared_in_proportion_to_what_waits() -> None:
    assert limit_offsets({A: 0, B: 100}, {A: 900, B: 200}, 100) == {A: 90, B: 110}


def test_a_partition_with_little_still_gets_on() -> None:
    assert limit_offsets({A: 0, B: 0}, {A: 1_000_000, B: 1}, 10)[B] == 1


def test_bytes_are_those_of_each_partitions_records() -> None:
    limited = limit_bytes({A: 0, B: 0}, {A: 100, B: 100}, 5_500, looking(a=100, b=10))
    assert limited == {A: 50, B: 50}


def test_a_limit_smaller_than_a_record_is_one_record() -> None:
    assert limit_bytes({A: 0}, {A: 100}, 50, looking(a=100, b=10)) == {A: 1}


def test_what_is_below_the_limit_is_read_whole() -> None:
    assert limit_bytes({A: 0, B: 7}, {A: 100, B: 7}, 10_000, looking(a=100, b=10)) == {A: 100, B: 7}


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
