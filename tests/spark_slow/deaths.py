"""How processes die in the middle of a micro-batch, by kill -9: tasks after they wrote their rows, drivers around a commit.

Spark sinks commit in a Python worker beside the driver, the sinks of stores in the driver itself; either way the driver's
whole process group dies: its JVM and what the JVM started.
"""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pyspark import TaskContext
from pyspark.sql.types import StructType

from ottla.spark.decisions import Decision
from ottla.spark.exactly_once import Prepared
from ottla.spark.sink_options import SinkOptions
from pyspark_ottla import DefaultSource
from tests.spark.crashing_sink import CrashingWriter, CrashPoint

COMMITS_UNTIL_DEATH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDeath:
    """In the first attempt at each of the first micro-batches one task dies; `marks` gets a file for each."""

    count: int
    marks: str

    def __call__(self) -> None:
        context = TaskContext.get()
        assert context is not None
        batch = int(context.getLocalProperty("streaming.sql.batchId") or 0)
        if batch < self.count and context.partitionId() == 0 and context.attemptNumber() == 0:
            Path(self.marks, str(batch)).touch()
            os.kill(os.getpid(), signal.SIGKILL)


def die_with_driver(driver: int) -> NoReturn:
    os.killpg(driver, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("nothing survives this")


# -- the sink of topics, whose steps are in tests/spark/crashing_sink.py ---------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeath:
    driver: int = 0
    point: CrashPoint | None = None
    batch: int = 0
    in_task: TaskDeath | None = None


class DyingWriter(CrashingWriter):
    def __init__(self, options: SinkOptions, death: TopicDeath) -> None:
        super().__init__(options, death.point)
        self._death = death
        self._batch = -1

    def write(self, iterator: Iterator[Any]) -> Prepared:
        prepared = super().write(iterator)
        if self._death.in_task is not None:
            self._death.in_task()
        return prepared

    def decide(self, prepared: Any, batch_id: int) -> Decision | None:
        self._batch = batch_id
        return super().decide(prepared, batch_id)

    def crash(self) -> None:
        if self._batch == self._death.batch:
            die_with_driver(self._death.driver)


def dying_source(death: TopicDeath) -> type[DefaultSource]:
    class DyingSource(DefaultSource):
        @classmethod
        def name(cls) -> str:
            return "ottla-dying"

        def streamWriter(self, schema: StructType, overwrite: bool) -> DyingWriter:
            return DyingWriter(SinkOptions.parse(self.options), death)

    return DyingSource
