"""A topic as a source: `type: topic`, which is what a source is that says no type.

Settings are the options of `format("ottla")` by their own names, so that there is one list of them to know. Read as a
stream, each record is a row, once. Read as a table (`read: table`), each key is a row, with its newest value, looked up
anew for each micro-batch: what a compacted topic, such as one of change data, means. A tombstone takes its row away.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from ottla.spark.options import OptionError
from ottla.spark.pipelines.contract import PipelineContext, Setting, Settings, Source, Tolerance, Wrong
from ottla.spark.source_options import EARLIEST, BadRecords, Format, SourceOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OPTION_NAMES: Final = {"topic": "subscribe", "topicPattern": "subscribePattern", "group": "kafka.group.id"}
_ONLY_STREAMS: Final = (
    "group",
    "startingOffsets",
    "startingTimestamp",
    "columns",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
)
_FORMATS: Final = tuple(Format)


class TopicSource(Source):
    name = "topic"
    settings = (
        Setting(name="topic", kind=str, doc="one topic, or several with commas"),
        Setting(name="topicPattern", kind=str, doc="topics by a regular expression"),
        Setting(
            name="read", kind=str, default="stream", choices=("stream", "table"), doc="table: newest value of a key"
        ),
        Setting(name="group", kind=str, doc="the group that shows how far reading is; without it, the pipeline's name"),
        Setting(
            name="startingOffsets", kind=str, doc="where the first run begins: earliest, latest, group:<name>, JSON"
        ),
        Setting(name="startingTimestamp", kind=int, doc="in milliseconds, instead of startingOffsets"),
        Setting(name="keyFormat", kind=str, choices=_FORMATS, doc="what the bytes of a key are"),
        Setting(name="keySchema", kind=str, doc="of JSON, such as 'id bigint'"),
        Setting(name="valueFormat", kind=str, choices=_FORMATS, doc="what the bytes of a value are"),
        Setting(name="valueSchema", kind=str, doc="of JSON, such as 'id bigint, city string'"),
        Setting(name="includeHeaders", kind=bool, doc="adds the column headers"),
        Setting(name="columns", kind=str, doc="only these, with commas"),
        Setting(name="maxOffsetsPerTrigger", kind=int, doc="about as many records a micro-batch"),
        Setting(name="maxBytesPerTrigger", kind=int, doc="about as many bytes a micro-batch"),
        Setting(name="minPartitions", kind=int, doc="at least as many tasks a micro-batch"),
        Setting(name="failOnDataLoss", kind=bool, doc="false: go on where records are gone before they were read"),
    )

    @classmethod
    def check(cls, settings: Settings) -> Iterator[Wrong]:
        if (settings["topic"] is None) == (settings["topicPattern"] is None):
            yield Wrong(setting="topic", reason="exactly one of topic and topicPattern is needed")
            return
        for side in ("key", "value"):
            if settings[f"{side}Format"] == Format.JSON and settings[f"{side}Schema"] is None:
                yield Wrong(
                    setting=f"{side}Format", reason=f"json needs a schema: {side}Schema: id bigint, city string"
                )
        for name in _ONLY_STREAMS:
            if settings["read"] == "table" and settings[name] is not None:
                yield Wrong(setting=name, reason="a table is read as a whole: this is for read: stream")
        try:
            SourceOptions.parse({"kafka.bootstrap.servers": "checked:0", **_options(settings)})
        except OptionError as error:
            named = [name for name in settings if name.lower() in str(error).lower()]
            yield Wrong(setting=named[-1] if named else "topic", reason=str(error))

    def frame(self, spark: "SparkSession", settings: Settings, context: PipelineContext) -> "DataFrame":
        is_table = settings["read"] == "table"
        options = {
            "kafka.bootstrap.servers": context.bootstrap_servers,
            **context.client_options,
            **({} if is_table else {"startingOffsets": EARLIEST}),
            **_options(settings if is_table else {**settings, "group": settings["group"] or context.name}),
            **_bad_records(context),
        }
        reader: Any = spark.read if is_table else spark.readStream
        frame: DataFrame = reader.format("ottla").options(**options).load()
        if options["badRecords"] == BadRecords.COLUMN:
            frame = frame.where("error is null").drop("error")
        return _newest_by_key(frame) if is_table else frame


def _options(settings: Settings) -> dict[str, str]:
    chosen = {name: value for name, value in settings.items() if value is not None and name != "read"}
    return {_OPTION_NAMES.get(name, name): _text(value) for name, value in chosen.items()}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bad_records(context: PipelineContext) -> dict[str, str]:
    errors = context.errors
    if errors.dead_letter_topic is not None:
        return {"badRecords": BadRecords.DEAD_LETTER, "deadLetterTopic": errors.dead_letter_topic}
    return {"badRecords": BadRecords.FAIL if errors.tolerance is Tolerance.NONE else BadRecords.COLUMN}


def _newest_by_key(frame: "DataFrame") -> "DataFrame":
    """Records of a key are in one partition, so offsets order them; a compacted topic may still hold several."""
    from pyspark.sql import functions as F

    newest = F.max_by(F.struct(*frame.columns), "offset").alias("newest")
    return frame.groupBy("topic", "key").agg(newest).select("newest.*").where("value is not null")
