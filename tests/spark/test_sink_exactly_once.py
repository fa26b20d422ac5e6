"""Exactly once in Spark itself: a query fails in a task or in its driver, starts again, and every row is there once.

All points at which a driver can die are in tests/unit/spark/test_exactly_once.py; kill -9 is in tests/spark_slow.
"""

from typing import Any

import pytest

from tests.spark.brokers import AnyBroker
from tests.spark.crashing_sink import CrashingSource, CrashPoint
from tests.spark.source_topics import create, filled, reader, stream, values
from tests.spark.visibility import wait_visible

IN_A_TASK = "task"
ROWS = 24


@pytest.mark.parametrize("point", [IN_A_TASK, CrashPoint.BEFORE_DECISION, CrashPoint.BETWEEN_COMMITS])
def test_a_query_that_fails_and_starts_again_writes_each_row_once(
    spark: Any, broker: AnyBroker, checkpoint: str, point: str
) -> None:
    source, target = f"exact-source-{point}", f"exact-target-{point}"
    create(broker, target, 2)
    filled(broker, source, ROWS)
    spark.dataSource.register(CrashingSource)

    def run(crash_point: str) -> None:
        frame = stream(spark, broker, source, startingOffsets="earliest", maxOffsetsPerTrigger=ROWS // 2)
        if crash_point == IN_A_TASK:
            frame = frame.selectExpr("key", "if(offset < 11, value, cast(raise_error('crash') as binary)) value")
        writing = frame.select("key", "value").writeStream.format("ottla-crashing")
        writing = writing.option("kafka.bootstrap.servers", broker.bootstrap_servers).option("topic", target)
        writing = writing.option("guarantee", "exactlyOnce").option("checkpointLocation", checkpoint)
        if crash_point in set(CrashPoint):
            writing = writing.option("crashPoint", crash_point)
        writing.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(Exception, match=r"crash|Crash"):
        run(point)
    run("")
    wait_visible(broker, target)
    assert values(reader(spark, broker, target)) == sorted(f"v{number}" for number in range(ROWS))
