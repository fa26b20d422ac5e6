"""Which filters prune, how far, and which stay with Spark."""

from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from ottla.base.types import TopicPartition
from ottla.spark.filter_pruning import Pruning

PARTITIONS = [TopicPartition(topic, index) for topic in ("a", "b") for index in range(3)]
NOON = datetime(2024, 1, 1, 12, 0, 0, 999, UTC)
NOON_MS = 1_704_110_400_000


def pushed(*filters: Filter) -> tuple[Pruning, list[Filter]]:
    pruning = Pruning()
    return pruning, [one for one in filters if not pruning.push(one)]


def test_partitions_and_topics_are_pruned_to_the_letter() -> None:
    pruning, left = pushed(EqualTo(("topic",), "a"), GreaterThan(("partition",), 0), IsNotNull(("topic",)))
    assert [one for one in PARTITIONS if pruning.keeps(one)] == [TopicPartition("a", 1), TopicPartition("a", 2)]
    assert not left
    pruning, left = pushed(In(("partition",), (0, 7, None)), In(("topic",), ("b",)))
    assert [one for one in PARTITIONS if pruning.keeps(one)] == [TopicPartition("b", 0)]
    assert not left


@pytest.mark.parametrize(
    ("one", "narrowed"),
    [
        (EqualTo(("offset",), 30), (30, 31)),
        (GreaterThan(("offset",), 30), (31, 90)),
        (GreaterThanOrEqual(("offset",), 30), (30, 90)),
        (LessThan(("offset",), 30), (10, 30)),
        (LessThanOrEqual(("offset",), 30), (10, 31)),
        (LessThan(("offset",), 5), (5, 5)),
        (GreaterThan(("offset",), 500), (90, 90)),
    ],
)
def test_offsets_are_pruned_to_the_letter(one: Filter, narrowed: tuple[int, int]) -> None:
    pruning, left = pushed(one)
    assert pruning.narrowed(10, 90) == narrowed
    assert not left


def test_of_several_offsets_what_is_between_is_left_to_spark() -> None:
    several = In(("offset",), (40, 20, None))
    pruning, left = pushed(several)
    assert pruning.narrowed(10, 90) == (20, 41)
    assert left == [several]


def test_several_filters_hold_together() -> None:
    pruning, _ = pushed(GreaterThan(("offset",), 20), LessThan(("offset",), 50), GreaterThan(("offset",), 15))
    assert pruning.narrowed(10, 90) == (21, 50)


@pytest.mark.parametrize(
    ("one", "first_ms"),
    [
        (GreaterThan(("timestamp",), NOON), NOON_MS),
        (GreaterThanOrEqual(("timestamp",), NOON), NOON_MS),
        (EqualTo(("timestamp",), NOON), NOON_MS),
        (In(("timestamp",), (datetime(2025, 1, 1, tzinfo=UTC), NOON)), NOON_MS),
        (LessThan(("timestamp",), NOON), None),
        (LessThanOrEqual(("timestamp",), NOON), None),
    ],
)
def test_a_time_says_only_where_to_begin_and_is_checked_by_spark(one: Filter, first_ms: int | None) -> None:
    pruning, left = pushed(one)
    assert pruning.first_timestamp_ms == first_ms
    assert left == [one]


@pytest.mark.parametrize(
    "one",
    [
        EqualTo(("value", "id"), 5),
        EqualTo(("value",), b"x"),
        Not(EqualTo(("partition",), 1)),
        EqualNullSafe(("partition",), 1),
        IsNull(("partition",)),
        StringStartsWith(("topic",), "a"),
        EqualTo(("partition",), None),
    ],
)
def test_all_else_is_sparks(one: Filter) -> None:
    pruning, left = pushed(one)
    assert left == [one]
    assert all(pruning.keeps(partition) for partition in PARTITIONS)
    assert pruning.narrowed(10, 90) == (10, 90)
