"""Rows as records of a topic: `type: topic`, which is what a sink is that says no type.

A row that has a column `value` is a record already, with `key`, `headers`, `topic`, `partition` and `timestamp` where it
has them. Any other becomes a JSON object of its columns, but for `key`, `headers`, `topic` and `partition`, which are the
record's. `key` and `value` say otherwise, each an SQL expression.
"""

from typing import TYPE_CHECKING, Final

from ottla.spark.pipelines.contract import Guarantee, PipelineContext, Promise, Setting, Settings, Sink

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_BESIDE_VALUE: Final = ("key", "headers", "topic", "partition")
_OPTION: Final = {Guarantee.EXACTLY_ONCE: "exactlyOnce", Guarantee.AT_LEAST_ONCE: "atLeastOnce"}
_JSON: Final = {"ignoreNullFields": "false"}


class TopicSink(Sink):
    name = "topic"
    output_modes = ("append",)
    settings = (
        Setting(name="topic", kind=str, doc="without it, the column topic names one for each row"),
        Setting(name="key", kind=str, doc="an expression for the record's key, such as user"),
        Setting(name="value", kind=str, doc="an expression for its value; without it, value or all columns as JSON"),
        Setting(
            name="compression",
            kind=str,
            default="none",
            choices=("none", "gzip", "snappy", "lz4", "zstd"),
            doc="of record batches",
        ),
    )

    @classmethod
    def strongest(cls, settings: Settings) -> Promise:
        return Promise(
            guarantee=Guarantee.EXACTLY_ONCE,
            because="the records of a micro-batch are in transactions that are committed together with its number, so "
            "consumers with isolation.level=read_committed see each once",
        )

    def writer(self, frame: "DataFrame", settings: Settings, context: PipelineContext) -> "DataStreamWriter":
        options = {
            "kafka.bootstrap.servers": context.bootstrap_servers,
            **context.client_options,
            "kafka.compression.type": settings["compression"],
            "guarantee": _OPTION[settings["guarantee"]],
        }
        if settings["topic"] is not None:
            options["topic"] = settings["topic"]
        return records_of(frame, settings).writeStream.format("ottla").options(**options)


def records_of(frame: "DataFrame", settings: Settings) -> "DataFrame":
    from pyspark.sql import functions as F

    is_record = "value" in frame.columns
    beside = (*_BESIDE_VALUE, "timestamp") if is_record else _BESIDE_VALUE
    columns = {name: F.col(name) for name in beside if name in frame.columns}
    if settings["key"] is not None:
        columns["key"] = F.expr(settings["key"]).cast("string").alias("key")
    if settings["value"] is not None:
        value = F.expr(settings["value"])
    elif is_record:
        value = _as_text(frame)
    else:
        value = F.to_json(F.struct(*(name for name in frame.columns if name not in _BESIDE_VALUE)), _JSON)
    return frame.select(value.alias("value"), *columns.values())


def _as_text(frame: "DataFrame") -> "Column":
    """A value that was read as JSON is written as JSON."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType, StringType

    is_text = isinstance(frame.schema["value"].dataType, BinaryType | StringType)
    return F.col("value") if is_text else F.to_json("value", _JSON)
