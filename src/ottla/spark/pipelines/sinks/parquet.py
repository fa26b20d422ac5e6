"""Parquet files in a directory: `type: parquet`, Spark's own file sink."""

from typing import TYPE_CHECKING

from ottla.spark.pipelines.contract import Guarantee, PipelineContext, Promise, Setting, Settings, Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class ParquetSink(Sink):
    name = "parquet"
    output_modes = ("append",)
    settings = (
        Setting(name="path", kind=str, is_required=True, doc="a directory, local or in an object store"),
        Setting(name="partitionBy", kind=list, default=[], doc="columns that become directories"),
        Setting(
            name="compression",
            kind=str,
            default="zstd",
            choices=("none", "snappy", "gzip", "lz4", "zstd"),
            doc="of the files",
        ),
    )

    @classmethod
    def strongest(cls, settings: Settings) -> Promise:
        return Promise(
            guarantee=Guarantee.EXACTLY_ONCE,
            because="files count once _spark_metadata lists them, and it lists each micro-batch once; a reader other than "
            "Spark, which does not look there, may see the files of a failed micro-batch as well",
        )

    def writer(self, frame: "DataFrame", settings: Settings, context: PipelineContext) -> "DataStreamWriter":
        writer = frame.writeStream.format("parquet").option("path", settings["path"])
        writer = writer.option("compression", settings["compression"])
        return writer.partitionBy(*settings["partitionBy"]) if settings["partitionBy"] else writer
