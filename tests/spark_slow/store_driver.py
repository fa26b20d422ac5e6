"""A pipeline's driver as a process of its own, from a topic to a store, that can be told where to die.

`python -m tests.spark_slow.store_driver '<json of Orders>'`
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ottla.spark.pipelines.contract import PipelineContext, Sink
from ottla.spark.pipelines.kinds import sink_kind

COMMITS_UNTIL_DEATH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    sink: str
    settings: dict[str, Any]
    bootstrap_servers: str
    topic: str
    checkpoint: str
    records_per_batch: int
    death: str = ""
    """`before` or `after` the second commit of this run."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def main(orders: Orders) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "1g")
        # A driver that died within its first write to the checkpoint leaves a file, which would stop all further ones.
        .config("spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", orders.bootstrap_servers)
    reader = reader.option("subscribe", orders.topic).option("maxOffsetsPerTrigger", orders.records_per_batch)
    frame = reader.option("startingOffsets", "earliest").load()
    frame = frame.selectExpr("topic", "partition", "offset", "cast(value as string) value")
    if orders.settings.pop("without_record_key", False):
        frame = frame.selectExpr("value")
    kind = sink_kind(orders.sink)
    settings = {one.name: one.default for one in kind.settings} | {"guarantee": "exactly-once"} | orders.settings
    context = PipelineContext(
        name="orders", bootstrap_servers=orders.bootstrap_servers, checkpoint=Path(orders.checkpoint)
    )
    writer = kind().writer(frame, settings, context).option("checkpointLocation", orders.checkpoint)
    if orders.death:
        die_at_commit(kind, is_committed=orders.death == "after")
    writer.trigger(availableNow=True).start().awaitTermination()


def die_at_commit(kind: type[Sink], *, is_committed: bool) -> None:
    owner, name = commit_function(kind.name)
    real: Callable[..., Any] = getattr(owner, name)
    calls = 0

    def deadly(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        is_last = calls == COMMITS_UNTIL_DEATH
        if is_last and not is_committed:
            os.killpg(0, signal.SIGKILL)
        result = real(*arguments, **named)
        if is_last:
            os.killpg(0, signal.SIGKILL)
        return result

    setattr(owner, name, deadly)


def commit_function(sink: str) -> tuple[Any, str]:
    """What makes a micro-batch count in that store."""
    match sink:
        case "delta":
            from deltalake import DeltaTable

            return DeltaTable, "create_write_transaction"
        case "iceberg":
            from pyiceberg.table import Transaction

            return Transaction, "commit_transaction"
        case _:
            from ottla.spark.pipelines.sinks import jdbc

            return jdbc, "in_tasks"


if __name__ == "__main__":
    main(Orders(**json.loads(sys.argv[1])))
