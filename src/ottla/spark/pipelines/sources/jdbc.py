"""A PostgreSQL table as a source: rows are read in the order of a column that grows, such as an id or a time of change.

`increments` says which rows a micro-batch has; they are read by tasks with psycopg2, in ranges of that column. Rows whose
column is null are never read. A row that is committed with a value below what was read already is missed: let the column
grow in the order of commits, or capture changes from the log (`ottla cdc`).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ottla.spark.pipelines.contract import PipelineContext, Setting, Settings, Source, Wrong
from ottla.spark.pipelines.postgres import SERVER_SETTINGS, wrong_url

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT: Final = "ottla-jdbc"


class JdbcSource(Source):
    name = "jdbc"
    settings = (
        *SERVER_SETTINGS,
        Setting(name="table", kind=str, is_required=True, doc="the table, such as orders or shop.orders"),
        Setting(
            name="incrementColumn", kind=str, is_required=True, doc="a column that grows with every insert or change"
        ),
        Setting(name="startAt", kind=str, doc="the first value of that column to read; without it, all rows"),
        Setting(
            name="maxRowsPerTrigger", kind=int, doc="about as many rows a micro-batch: rows of equal value go together"
        ),
        Setting(name="partitions", kind=int, default=1, doc="in how many ranges, each a task, a micro-batch is read"),
    )

    @classmethod
    def check(cls, settings: Settings) -> Iterator[Wrong]:
        yield from wrong_url(settings)
        for name in ("maxRowsPerTrigger", "partitions"):
            if settings[name] is not None and settings[name] <= 0:
                yield Wrong(setting=name, reason="it must be positive")

    def frame(self, spark: "SparkSession", settings: Settings, context: PipelineContext) -> "DataFrame":
        from ottla.spark.pipelines.sources.jdbc_reader import JdbcDataSource

        spark.dataSource.register(JdbcDataSource)
        given = {one.name: settings[one.name] for one in self.settings if settings[one.name] is not None}
        return spark.readStream.format(FORMAT).options(**given).load()
