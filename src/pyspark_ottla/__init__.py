"""Spark finds this package by its name and registers `format("ottla")`. Everything else is imported by its first use.

One failing import in any package of this kind would take away all of them, so nothing but PySpark is imported here.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from ottla.spark.batch_reader import OttlaReader
    from ottla.spark.stream_reader import OttlaStreamReader


class DefaultSource(DataSource):
    """Topics of Ottla or of any Kafka as a source of batch and streaming queries."""

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> str:
        from ottla.spark.columns import spark_schema
        from ottla.spark.source_options import SourceOptions

        return spark_schema(SourceOptions.parse(self.options))

    def reader(self, schema: "StructType") -> "OttlaReader":
        from ottla.spark.batch_reader import OttlaReader
        from ottla.spark.source_options import SourceOptions

        return OttlaReader(SourceOptions.parse(self.options))

    def streamReader(self, schema: "StructType") -> "OttlaStreamReader":
        from ottla.spark.source_options import SourceOptions
        from ottla.spark.stream_reader import OttlaStreamReader

        return OttlaStreamReader(SourceOptions.parse(self.options))
