"""A pipeline's driver as a process of its own, from a topic to a sink, that can be told how to die.

`python -m tests.spark_slow.crash_driver '<json of Orders>'`
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from ottla.spark.pipelines.contract import PipelineContext
from ottla.spark.pipelines.kinds import sink_kind
from tests.spark.crashing_sink import CrashPoint
from tests.spark_slow.deaths import COMMITS_UNTIL_DEATH, TaskDeath, TopicDeath, die_with_driver, dying_source


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    sink: str
    settings: dict[str, Any]
    columns: str
    bootstrap_servers: str
    topic: str
    checkpoint: str
    records_per_batch: int
    crash_point: CrashPoint | None = None
    """Where the driver dies, in its second micro-batch."""
    task_deaths: int = 0
    """In so many micro-batches a task dies, and leaves a file in the checkpoint's `deaths`."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def main(orders: Orders) -> None:
    spark = session()
    reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", orders.bootstrap_servers)
    reader = reader.option("subscribe", orders.topic).option("maxOffsetsPerTrigger", orders.records_per_batch)
    frame = reader.option("startingOffsets", "earliest").load()
    frame = frame.selectExpr("topic", "partition", "offset", "cast(value as string) value").select(
        *orders.columns.split(",")
    )
    kind = sink_kind(orders.sink)
    settings = {one.name: one.default for one in kind.settings} | {"guarantee": "exactly-once"} | orders.settings
    context = PipelineContext(
        name="orders", bootstrap_servers=orders.bootstrap_servers, checkpoint=Path(orders.checkpoint)
    )
    if orders.sink == "parquet" and orders.task_deaths:
        frame = frame.mapInArrow(die_after(_as_they_are, task_death(orders)), frame.schema)
    writer = kind().writer(frame, settings, context).option("checkpointLocation", orders.checkpoint)
    if orders.sink == "topic":
        spark.dataSource.register(dying_source(topic_death(orders)))
        writer = writer.format("ottla-dying")
    else:
        make_store_deadly(orders)
    writer.trigger(availableNow=True).start().awaitTermination()


def session() -> Any:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2,4]")  # A task that fails is run again, up to four times.
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "1g")
        # A short life: nothing is compiled for a long one.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.codegen.wholeStage", "false")
        # A driver that died within its first write to the checkpoint leaves a file, which would stop all further ones.
        .config("spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def task_death(orders: Orders) -> TaskDeath:
    marks = Path(orders.checkpoint, "deaths")
    marks.mkdir(parents=True, exist_ok=True)
    return TaskDeath(count=orders.task_deaths, marks=str(marks))


def topic_death(orders: Orders) -> TopicDeath:
    commits = Path(orders.checkpoint, "commits")
    done = sum(one.name.isdecimal() for one in commits.iterdir()) if commits.exists() else 0
    return TopicDeath(
        driver=os.getpid(),
        point=orders.crash_point,
        batch=done + COMMITS_UNTIL_DEATH - 1,
        in_task=task_death(orders) if orders.task_deaths else None,
    )


# -- stores, whose tasks and commits are functions in the driver -----------------------------------------------------


def make_store_deadly(orders: Orders) -> None:
    if orders.task_deaths and orders.sink != "parquet":
        module = sink_module(orders.sink)
        real = module.in_tasks
        death = task_death(orders)
        vars(module)["in_tasks"] = lambda batch, write: real(batch, die_after(write, death))
    if orders.crash_point is not None:
        die_at_commit(*commit_function(orders.sink), is_committed=orders.crash_point is CrashPoint.AFTER_DECISION)


def die_after(write: Callable[[Any], Iterator[Any]], death: TaskDeath) -> Callable[[Any], Iterator[Any]]:
    def deadly(batches: Any) -> Iterator[Any]:
        yield from write(batches)
        death()

    return deadly


def _as_they_are(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


def die_at_commit(owner: Any, name: str, *, is_committed: bool) -> None:
    real: Callable[..., Any] = getattr(owner, name)
    calls = 0

    def deadly(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        is_last = calls == COMMITS_UNTIL_DEATH
        if is_last and not is_committed:
            die_with_driver(os.getpid())
        result = real(*arguments, **named)
        if is_last:
            die_with_driver(os.getpid())
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
            return sink_module(sink), "in_tasks"


def sink_module(sink: str) -> ModuleType:
    return sys.modules[sink_kind(sink).__module__]


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    point = given.pop("crash_point")
    main(Orders(**given, crash_point=None if point is None else CrashPoint(point)))
