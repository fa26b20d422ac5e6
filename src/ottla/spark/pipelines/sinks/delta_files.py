"""What a task does for a Delta table: Parquet files beside the table's log, and the entry that the log gets for each.

A file holds the rows of one combination of partition values; these stand in the log only, as the protocol has it, so
that no value ever becomes part of a path. An empty text is null there: the protocol knows no difference.
"""

import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction
from pyarrow.fs import PyFileSystem

from ottla.spark.pipelines.sinks.micro_batch import gathered

ROW_GROUP_BYTES: Final = 32 << 20  # In Arrow: what readers skip or read at a time, and what a task holds in memory.

PartitionValues = tuple[str | None, ...]


def write_files(
    uri: str, storage: Mapping[str, str], partition_by: Sequence[str], batches: Iterator[pa.RecordBatch]
) -> Iterator[AddAction]:
    store = PyFileSystem(DeltaStorageHandler(uri, dict(storage)))
    files: dict[PartitionValues, _OpenFile] = {}
    for rows in gathered(batches, ROW_GROUP_BYTES):
        for values, part in split(rows, partition_by):
            if values not in files:
                files[values] = _OpenFile(store, part.schema)
            files[values].write(part)
    for values, file in files.items():
        yield file.finish(dict(zip(partition_by, values, strict=True)))


class _OpenFile:
    def __init__(self, store: PyFileSystem, schema: pa.Schema) -> None:
        self._store = store
        self._path = f"part-{uuid.uuid4()}.snappy.parquet"
        self._stream = store.open_output_stream(self._path)
        self._parquet = pq.ParquetWriter(self._stream, schema, compression="snappy")
        self._row_count = 0

    def write(self, rows: pa.Table) -> None:
        self._parquet.write_table(rows)
        self._row_count += len(rows)

    def finish(self, values: dict[str, str | None]) -> AddAction:
        self._parquet.close()
        self._stream.close()
        return AddAction(
            path=self._path,
            size=self._store.get_file_info(self._path).size,
            partition_values=values,
            modification_time=time.time_ns() // 1_000_000,
            data_change=True,
            stats=json.dumps({"numRecords": self._row_count}),
        )


def split(rows: pa.Table, by: Sequence[str]) -> Iterator[tuple[PartitionValues, pa.Table]]:
    """The rows of each combination of values, without the columns that they are divided by."""
    if not by:
        yield (), rows
        return
    numbered = rows.select(by).append_column("__row", pa.array(np.arange(len(rows))))
    groups = numbered.group_by(list(by), use_threads=False).aggregate([("__row", "list")])
    for group, values in enumerate(groups.select(by).to_pylist()):
        members = groups["__row_list"][group].values
        yield tuple(_text(values[name]) for name in by), rows.take(members).drop_columns(list(by))


def _text(value: Any) -> str | None:
    """As the protocol writes a partition value."""
    match value:
        case None | "":
            return None
        case bool():
            return str(value).lower()
        case date():
            return value.isoformat()
        case _:
            return str(value)
