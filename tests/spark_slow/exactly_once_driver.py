"""A driver to be killed: copies a topic to another exactly once, in small micro-batches, and exits when it is done."""

import os
import sys

from pyspark.sql import SparkSession


def main(servers: str, source: str, target: str, checkpoint: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    frame = spark.readStream.format("ottla").option("kafka.bootstrap.servers", servers).option("subscribe", source)
    rows = frame.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 400).load().select("key", "value")
    writing = rows.writeStream.format("ottla").option("kafka.bootstrap.servers", servers).option("topic", target)
    writing = writing.option("guarantee", "exactlyOnce").option("checkpointLocation", checkpoint)
    writing.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
