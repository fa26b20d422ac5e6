"""A stateful transform for running-totals.yaml: how many orders a user has made, and for how much, after each of them."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

OUTPUT = "user string, id bigint, count bigint, total double"


class Totals(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self._totals = handle.getValueState("totals", "count bigint, total double")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        count, total = self._totals.get() or (0, 0.0)
        # A micro-batch gives the rows of a key in any order; a user's orders are in one partition, so offsets have it.
        for row in sorted(rows, key=lambda row: row.offset):
            count, total = count + 1, total + row.amount
            yield Row(user=key[0], id=row.id, count=count, total=total)
        self._totals.update((count, total))

    def close(self) -> None:
        pass


def running_totals(orders: DataFrame, spark: SparkSession) -> DataFrame:
    return orders.groupBy("user").transformWithState(Totals(), OUTPUT, outputMode="Append", timeMode="None")
