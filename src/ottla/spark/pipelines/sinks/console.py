"""Rows on the terminal, for trying a pipeline out: `type: console`."""

from typing import TYPE_CHECKING

from ottla.spark.pipelines.contract import Guarantee, PipelineContext, Promise, Setting, Settings, Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class ConsoleSink(Sink):
    name = "console"
    settings = (
        Setting(name="numRows", kind=int, default=20, doc="at most as many rows of a micro-batch"),
        Setting(name="truncate", kind=bool, default=False, doc="true: cells of 20 characters at most"),
    )

    @classmethod
    def strongest(cls, settings: Settings) -> Promise:
        return Promise(
            guarantee=Guarantee.AT_LEAST_ONCE,
            because="a terminal cannot take back what a failed micro-batch has shown",
        )

    def writer(self, frame: "DataFrame", settings: Settings, context: PipelineContext) -> "DataStreamWriter":
        writer = frame.writeStream.format("console").option("numRows", settings["numRows"])
        return writer.option("truncate", settings["truncate"])
