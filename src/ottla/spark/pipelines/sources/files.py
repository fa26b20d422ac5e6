"""Files that come into a directory, each read once: `type: files`, in Spark's own formats."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.spark.pipelines.contract import PipelineContext, Setting, Settings, Source, Wrong

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class FilesSource(Source):
    name = "files"
    settings = (
        Setting(name="path", kind=str, is_required=True, doc="a directory, local or in an object store"),
        Setting(
            name="format",
            kind=str,
            is_required=True,
            choices=("json", "csv", "parquet", "orc", "text", "xml"),
            doc="what the files are",
        ),
        Setting(name="schema", kind=str, doc="such as 'id bigint, city string'; text needs none"),
        Setting(name="maxFilesPerTrigger", kind=int, doc="at most as many files a micro-batch"),
        Setting(name="options", kind=dict, default={}, doc="Spark's options of the format, such as header: true"),
    )

    @classmethod
    def check(cls, settings: Settings) -> Iterator[Wrong]:
        if settings["schema"] is None and settings["format"] != "text":
            yield Wrong(setting="schema", reason="a stream of files needs one: schema: id bigint, city string")

    def frame(self, spark: "SparkSession", settings: Settings, context: PipelineContext) -> "DataFrame":
        reader = spark.readStream.format(settings["format"]).options(**settings["options"])
        if settings["schema"] is not None:
            reader = reader.schema(settings["schema"])
        if settings["maxFilesPerTrigger"] is not None:
            reader = reader.option("maxFilesPerTrigger", settings["maxFilesPerTrigger"])
        return reader.load(settings["path"])
