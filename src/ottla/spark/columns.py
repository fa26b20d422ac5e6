"""The columns of a topic in Spark: names and types of the official Kafka connector, so that a query need not change."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from ottla.base.types import TopicPartition
from ottla.spark.record_columns import HEADERS_TYPE, RecordColumns
from ottla.spark.source_options import COLUMNS, SourceOptions

# Column -> its type in Spark and in Arrow. Spark refuses an Arrow schema that differs in the least.
_TYPES: Final[dict[str, tuple[str, pa.DataType]]] = {
    "key": ("binary", pa.binary()),
    "value": ("binary", pa.binary()),
    "topic": ("string", pa.string()),
    "partition": ("int", pa.int32()),
    "offset": ("bigint", pa.int64()),
    "timestamp": ("timestamp", pa.timestamp("us", "UTC")),
    "timestampType": ("int", pa.int32()),
    "headers": ("array<struct<key: string, value: binary>>", HEADERS_TYPE),
}


def column_names(options: SourceOptions) -> Sequence[str]:
    if options.columns:
        return options.columns
    return [name for name in COLUMNS if name != "headers" or options.include_headers]


def spark_schema(options: SourceOptions) -> str:
    return ", ".join(f"{name} {_TYPES[name][0]}" for name in column_names(options))


def record_batch(
    columns: RecordColumns, partition: TopicPartition, names: Sequence[str], rows: slice | None = None
) -> pa.RecordBatch:
    """The named columns as Spark wants them."""
    count = len(columns)
    arrays = [_array(name, columns, partition, count) for name in names]
    schema = pa.schema([pa.field(name, _TYPES[name][1]) for name in names])
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return batch if rows is None else batch.slice(rows.start, rows.stop - rows.start)


def _array(name: str, columns: RecordColumns, partition: TopicPartition, count: int) -> pa.Array:
    match name:
        case "key":
            return columns.keys
        case "value":
            return columns.values
        case "topic":
            return pa.repeat(pa.scalar(partition.topic), count)
        case "partition":
            return pa.repeat(pa.scalar(partition.partition, pa.int32()), count)
        case "offset":
            return pa.array(columns.offsets)
        case "timestamp":
            return pa.array(columns.timestamps_ms * np.int64(1000)).cast(_TYPES["timestamp"][1])
        case "timestampType":
            return pa.array(columns.timestamp_types)
        case _:
            return columns.headers
