"""A Spark session with both connectors, in the environment that `tools/conformance_spark.py` made. Started by
conftest.py: a JSON object a line on standard input names a function of this file and its arguments, the answer is a
line on standard output.

`connector` is a format's name, "kafka" or "ottla": all else is the same for both, which is what is shown.
"""

import base64
import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

Options = dict[str, str]


def start_session(jars: str) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.jars", jars).config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "2")
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def read(spark: SparkSession, connector: str, options: Options) -> dict[str, Any]:
    frame = spark.read.format(connector).options(**options).load()
    return {"columns": frame.dtypes, "rows": _rows(frame)}


def write(spark: SparkSession, connector: str, rows: list[dict[str, str]], options: Options) -> None:
    """Rows of key, value, topic and one header. Python sources can only append, and Spark wants to be told so."""
    frame = spark.createDataFrame(rows, "key string, value string, topic string, header string")
    headers = "array(struct('h' AS key, cast(header AS binary) AS value)) AS headers"
    frame.selectExpr("key", "value", "topic", headers).write.format(connector).mode("append").options(**options).save()


def stream_copy(spark: SparkSession, connector: str, options: Options, target: Options, checkpoint: str) -> list[int]:
    """One run to the end of the source; rows of each micro-batch."""
    frame = spark.readStream.format(connector).options(**options).load().select("key", "value")
    writing = frame.writeStream.format(connector).options(**target).option("checkpointLocation", checkpoint)
    query = writing.trigger(availableNow=True).start()
    query.awaitTermination()
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


def stream_count(spark: SparkSession, connector: str, options: Options, directory: str) -> list[list[Any]]:
    """Rows to Parquet by a query that is started twice: what it wrote, each value with how often."""
    frame = spark.readStream.format(connector).options(**options).load().selectExpr("cast(value AS string) AS value")
    writing = frame.writeStream.format("parquet").option("checkpointLocation", str(Path(directory) / "checkpoint"))
    rows = str(Path(directory) / "rows")
    writing.option("path", rows).trigger(availableNow=True).start().awaitTermination()
    counted = spark.read.parquet(rows).groupBy("value").count().orderBy("value").collect()
    return [[row["value"], row["count"]] for row in counted]


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return sorted(
        (_plain(row.asDict(True)) for row in frame.collect()),
        key=lambda row: (row["topic"], row["partition"], row["offset"]),
    )


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {name: _plain(item) for name, item in value.items()}
        case list():
            return [_plain(item) for item in value]
        case bytes() | bytearray():
            return base64.b64encode(value).decode()
        case None | int():
            return value
        case _:
            return str(value)


FUNCTIONS = {function.__name__: function for function in (read, write, stream_copy, stream_count)}


def main() -> None:
    spark = start_session(sys.argv[1])
    for line in sys.stdin:
        call = json.loads(line)
        try:
            answer = {"result": FUNCTIONS[call["name"]](spark, **call["arguments"])}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
