"""Spark sessions: one driver for all pipelines of a run, in it one session for each pipeline.

A pipeline's session has its own views and SQL configuration. What is no SQL configuration belongs to the driver, and two
pipelines that disagree about it cannot share one.
"""

import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.spark.pipelines.definition import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SQL_PREFIX: Final = "spark.sql."

_DRIVER: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",  # Its bar would be drawn over our table.
    "spark.log.level": "FATAL",  # A failure is told by us, in a line; Spark would add pages.
}
# PySpark logs what is wrong with a query on its own as well, the JVM's stack and all.
_QUERY_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_SESSION: Final = {
    "spark.sql.session.timeZone": "UTC",  # Delta refuses Arrow data in any other zone's name.
    "spark.sql.python.filterPushdown.enabled": "true",  # Off, a Python source that can push filters down fails.
    # A driver killed within its first write to a checkpoint leaves a file there, which would stop every later one.
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "20",  # The runner looks more often than 20 micro-batches pass.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}


class ConflictingConf(ValueError):
    """Two pipelines that cannot share a driver."""


class CannotStart(RuntimeError):
    """Spark did not come up."""


def start_driver(pipelines: Iterable[Pipeline], *, master: str, conf: Mapping[str, str], log: Path) -> "SparkSession":
    """`log` gets what Spark and its workers say: a terminal is for our table."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Workers take python3 from PATH otherwise.
    # Meant for PySpark's shell (jupyter). Spark would start the tasks of Python sources by it, on any machine.
    os.environ.pop("PYSPARK_DRIVER_PYTHON", None)
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    chosen = {**_DRIVER, **_SESSION, **_local_defaults(master), **shared_conf(pipelines), **conf}
    builder = SparkSession.builder.master(master).appName("ottla pipeline")
    query_errors_in(log)
    try:
        with _stderr_in(log):
            return builder.config(map=dict(chosen)).getOrCreate()
    except PySparkException as error:
        raise CannotStart(f"Spark does not start, {log} says why; it needs Java 17 or newer") from error


def query_errors_in(log: Path) -> None:
    from pyspark.logger import PySparkLogger

    for name in _QUERY_LOGGERS:
        logger = PySparkLogger.getLogger(name)
        for handler in list(logger.handlers):
            logger.removeHandler(handler)
        logger.addHandler(logging.FileHandler(log, encoding="utf-8", delay=True))


@contextmanager
def _stderr_in(log: Path) -> Iterator[None]:
    """Whoever is started meanwhile keeps it for life."""
    log.parent.mkdir(parents=True, exist_ok=True)
    ours = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)


def _local_defaults(master: str) -> dict[str, str]:
    """Spark's 200 shuffle partitions are meant for a cluster; here each would be a state store of its own."""
    return {"spark.sql.shuffle.partitions": str(os.cpu_count() or 1)} if master.startswith("local") else {}


def shared_conf(pipelines: Iterable[Pipeline]) -> dict[str, str]:
    shared: dict[str, str] = {}
    for pipeline in pipelines:
        for name, value in pipeline.spark_conf.items():
            if shared.setdefault(name, value) != value and not name.startswith(_SQL_PREFIX):
                raise ConflictingConf(
                    f"{pipeline.file}: {name} is {value}, and {shared[name]} in another pipeline, but one driver has one "
                    "value: run them in two commands"
                )
    return shared


def pipeline_session(driver: "SparkSession", pipeline: Pipeline, conf: Mapping[str, str]) -> "SparkSession":
    session = driver.newSession()
    for name, value in {**_SESSION, **pipeline.spark_conf, **conf}.items():
        if name.startswith(_SQL_PREFIX) and session.conf.isModifiable(name):
            session.conf.set(name, value)
    return session
