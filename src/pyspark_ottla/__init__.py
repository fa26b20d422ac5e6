"""Spark finds this package by its name and registers `format("ottla")`. Everything else is imported by its first use.

One failing import in any package of this kind would take away all of them, so nothing but PySpark is imported here.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from ottla.spark.at_least_once import AtLeastOnceStreamWriter, AtLeastOnceWriter
    from ottla.spark.batch_reader import OttlaReader
    from ottla.spark.exactly_once import ExactlyOnceStreamWriter
    from ottla.spark.stream_reader import OttlaStreamReader


class DefaultSource(DataSource):
    """Topics of Ottla or of any Kafka as source and sink of batch and streaming queries."""

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> str:
        from ottla.spark.columns import spark_schema
        from ottla.spark.source_options import SourceOptions

        return spark_schema(SourceOptions.parse(self.options))

    def reader(self, schema: "StructType") -> "OttlaReader":
        from ottla.spark.batch_reader import FilteringReader, OttlaReader
        from ottla.spark.source_options import SourceOptions

        options = SourceOptions.parse(self.options)
        return (FilteringReader if options.push_filters else OttlaReader)(options, schema)

    def streamReader(self, schema: "StructType") -> "OttlaStreamReader":
        from ottla.spark.source_options import SourceOptions
        from ottla.spark.stream_reader import OttlaStreamReader

        return OttlaStreamReader(SourceOptions.parse(self.options, streaming=True), schema)

    def writer(self, schema: "StructType", overwrite: bool) -> "AtLeastOnceWriter":
        from ottla.spark.at_least_once import AtLeastOnceWriter
        from ottla.spark.sink_columns import check_columns
        from ottla.spark.sink_options import SinkOptions, refuse_in_batch

        options = SinkOptions.parse(self.options)
        refuse_in_batch(options, overwrite=overwrite)
        check_columns(schema, options.topic)
        return AtLeastOnceWriter(options)

    def streamWriter(
        self, schema: "StructType", overwrite: bool
    ) -> "AtLeastOnceStreamWriter | ExactlyOnceStreamWriter":
        from ottla.spark.at_least_once import AtLeastOnceStreamWriter
        from ottla.spark.exactly_once import ExactlyOnceStreamWriter
        from ottla.spark.sink_columns import check_columns
        from ottla.spark.sink_options import Guarantee, SinkOptions

        options = SinkOptions.parse(self.options)
        check_columns(schema, options.topic)
        if options.guarantee is Guarantee.EXACTLY_ONCE:
            return ExactlyOnceStreamWriter(options)
        return AtLeastOnceStreamWriter(options)
