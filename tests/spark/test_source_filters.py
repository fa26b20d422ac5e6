"""Filters that prune: the same rows as without, from fewer records."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.spark.brokers import AnyBroker
from tests.spark.source_topics import filled, reader

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
COUNT = 60


@pytest.fixture
def pushing(spark: Any) -> Iterator[Any]:
    spark.conf.set(PUSHDOWN, "true")
    yield spark
    spark.conf.unset(PUSHDOWN)


@pytest.fixture(scope="module")
def topic(broker: AnyBroker) -> str:
    filled(broker, "filters", COUNT, partitions=3)
    return "filters"


@pytest.mark.parametrize(
    ("condition", "tasks", "rows"),
    [
        ("partition = 1 AND offset >= 5 AND offset < 12", 1, 7),
        ("partition IN (0, 2) AND offset <= 3", 2, 8),
        ("partition > 0 AND offset IN (4, 9)", 2, 4),
        ("topic = 'other'", 1, 0),  # Spark makes one empty task where there is none.
        ("timestamp >= timestamp'2023-11-14 22:14:00' AND partition = 0", 1, 6),
        ("timestamp > timestamp'2023-11-14 22:13:59' AND timestamp < timestamp'2023-11-14 22:14:02'", 3, 2),
        ("timestamp > timestamp'2033-01-01 00:00:00'", 1, 0),
        ("partition <> 1 AND offset = 0", 3, 2),
        ("cast(value AS string) = 'v7'", 3, 1),
    ],
)
def test_pushed_filters_give_the_same_rows(
    pushing: Any, broker: AnyBroker, topic: str, condition: str, tasks: int, rows: int
) -> None:
    plain = reader(pushing, broker, topic).where(condition).select("value").collect()
    pushed = reader(pushing, broker, topic, pushFilters="true").where(condition).select("value")
    assert sorted(pushed.collect()) == sorted(plain)
    assert len(plain) == rows
    assert pushed.rdd.getNumPartitions() == tasks


def test_without_sparks_leave_it_says_which_setting_is_missing(spark: Any, broker: AnyBroker, topic: str) -> None:
    with pytest.raises(Exception, match=PUSHDOWN):
        reader(spark, broker, topic, pushFilters="true").where("partition = 1").collect()
