"""The columns that a sink takes, by the official connector's names and types, plus `timestamp`.

Others are passed over, so that what a source gives (offset, timestampType) can be written as it is.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ottla.spark.options import OptionError
from ottla.spark.record_encoding import RecordRows, encode_headers

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_TEXT_OR_BYTES: Final = ("string", "binary")
_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "key": _TEXT_OR_BYTES,
    "value": _TEXT_OR_BYTES,
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
    "timestamp": ("timestamp",),
}


class RowError(ValueError):
    """A row that cannot be written."""


def check_columns(schema: "StructType", topic: str) -> None:
    """Before any task starts."""
    found = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "value" not in found:
        raise OptionError(
            "a column value is needed, of type string or binary: select(to_json(struct('*')).alias('value'))"
        )
    if not topic and "topic" not in found:
        raise OptionError("where to? Set .option('topic', …), or give each row a column topic")
    for name, allowed in _TYPES.items():
        if name in found and found[name] not in allowed:
            raise OptionError(f"the column {name} is {found[name]}: {' or '.join(allowed)} is needed")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRows:
    """The rows of one Arrow batch that go to one topic."""

    topic: str
    rows: RecordRows
    named_partitions: pa.Array | None


def rows_by_topic(batch: pa.RecordBatch, topic: str) -> list[TopicRows]:
    if batch.num_rows == 0:
        return []
    if topic:
        return [_topic_rows(batch, topic)]
    topics = batch.column("topic")
    if topics.null_count:
        raise RowError("a row has no topic: the column topic is null, and the option topic is not set")
    return [_topic_rows(batch.filter(pc.equal(topics, one)), one.as_py()) for one in pc.unique(topics)]


def _topic_rows(batch: pa.RecordBatch, topic: str) -> TopicRows:
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    key, headers, partition = (columns.get(name) for name in ("key", "headers", "partition"))
    rows = RecordRows(
        keys=None if key is None else key.cast(pa.binary()),
        values=columns["value"].cast(pa.binary()),
        timestamps_ms=_timestamps_ms(columns.get("timestamp"), batch.num_rows),
        headers=None if headers is None else encode_headers(headers),
    )
    return TopicRows(topic=topic, rows=rows, named_partitions=partition)


def _timestamps_ms(column: pa.Array | None, count: int) -> npt.NDArray[np.int64]:
    now_ms = int(time.time() * 1000)
    if column is None:
        return np.full(count, now_ms, np.int64)
    milliseconds = column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
    found: npt.NDArray[np.int64] = milliseconds.fill_null(now_ms).to_numpy(zero_copy_only=False)
    return found
