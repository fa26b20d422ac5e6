"""One Spark driver, one connector, one job: started by spark_process.py in the connector's environment.

The job comes as JSON in the first argument, its figures leave as JSON on the last line of standard output. Every job
runs once before it counts, because a JVM compiles what it has run often.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

DRIVER_MEMORY: Final = "2g"
POLL_SECONDS: Final = 0.05

Job = dict[str, Any]


def start_session(jars: str) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.jars", jars)
    builder = builder.config("spark.driver.memory", DRIVER_MEMORY).config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def read_to_nowhere(spark: SparkSession, job: Job) -> dict[str, float]:
    """A batch read of everything into the sink that drops it."""
    frame = spark.read.format(job["format"]).options(**source_options(job, job["topic"])).load()
    found = frame.count()
    if found != job["count"]:
        raise SystemExit(f"{found} rows of {job['count']}")
    started = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return {"seconds": time.perf_counter() - started}


def copy(spark: SparkSession, job: Job) -> dict[str, float]:
    """A streaming query from topic to topic, up to what was there when it began."""
    run_copy(spark, job, job["warm_up_topic"], job["warm_up_target"])
    return {"seconds": run_copy(spark, job, job["topic"], job["target"])}


def run_copy(spark: SparkSession, job: Job, topic: str, target: str) -> float:
    with tempfile.TemporaryDirectory() as checkpoint:
        started = time.perf_counter()
        writing = copying(spark, job, topic, target, checkpoint)
        writing.trigger(availableNow=True).start().awaitTermination()
        return time.perf_counter() - started


def follow(spark: SparkSession, job: Job) -> dict[str, float]:
    """The same query without an end: says when it waits for rows, and stops when standard input is closed."""
    with tempfile.TemporaryDirectory() as checkpoint:
        query = copying(spark, job, job["topic"], job["target"], checkpoint).start()
        wait_idle(query)
        print(json.dumps({"ready": True}), flush=True)
        sys.stdin.read()
        batches = [progress for progress in query.recentProgress if progress["numInputRows"]]
        query.stop()
    return {"batch_ms": median(progress["durationMs"]["triggerExecution"] for progress in batches)}


def copying(spark: SparkSession, job: Job, topic: str, target: str, checkpoint: str) -> Any:
    frame: DataFrame = spark.readStream.format(job["format"]).options(**source_options(job, topic)).load()
    writing = frame.select("key", "value").writeStream.format(job["format"]).options(**job["sink_options"])
    writing = writing.option("kafka.bootstrap.servers", job["bootstrap"]).option("topic", target)
    return writing.option("checkpointLocation", str(Path(checkpoint) / "query"))


def source_options(job: Job, topic: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": job["bootstrap"], "subscribe": topic, "startingOffsets": "earliest"}


def wait_idle(query: StreamingQuery) -> None:
    while not str(query.status["message"]).startswith("Waiting"):
        if query.exception() is not None:
            raise SystemExit(str(query.exception()))
        time.sleep(POLL_SECONDS)


JOBS: Final = {"read_to_nowhere": read_to_nowhere, "copy": copy, "follow": follow}


def main() -> None:
    job = json.loads(sys.argv[1])
    spark = start_session(job["jars"])
    figures = JOBS[job["name"]](spark, job)
    print(json.dumps(figures), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
