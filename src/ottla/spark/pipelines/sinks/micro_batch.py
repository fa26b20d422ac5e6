"""What the store sinks share: tasks write the rows of a micro-batch, in Arrow, and the driver commits what they wrote.

Spark hands the driver each micro-batch with its number (`foreachBatch`, which, unlike a Python stream writer, takes every
output mode). After a failure the same number comes again with the same rows, so a sink keeps (query id, number) with the
rows and skips what it has. The query id is the checkpoint's: without its checkpoint, a query is a new one.
"""

import pickle
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

T = TypeVar("T")


class DoesNotFit(ValueError):
    """The rows cannot go to this table."""


def query_id(batch: "DataFrame") -> str:
    found = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    assert found is not None, "Spark sets it for the thread that runs a streaming query"
    return found


def in_tasks(batch: "DataFrame", write: Callable[[Iterator["pa.RecordBatch"]], Iterator[T]]) -> list[T]:
    """Runs `write` once for every partition of the rows; what the calls yield comes back to the driver."""
    schema = stored_schema(batch.schema)

    def pickled(batches: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        import pyarrow as pa

        for result in write(one.cast(schema) for one in batches if one.num_rows):
            yield pa.RecordBatch.from_pydict({"result": [pickle.dumps(result)]})

    return [pickle.loads(row["result"]) for row in batch.mapInArrow(pickled, "result binary").collect()]


def stored_schema(schema: "StructType") -> "pa.Schema":
    """Nullable throughout, as Spark's own tables are, and with moments in UTC, whatever time zone the session shows."""
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from ottla.spark.arrow_types import arrow_type_of

    fields = StructType.fromJson(_nullable(schema.jsonValue())).fields
    return pa.schema([(field.name, arrow_type_of(field.dataType)) for field in fields])


def _nullable(node: Any) -> Any:
    if isinstance(node, list):
        return [_nullable(element) for element in node]
    if not isinstance(node, dict):
        return node
    said = {"nullable", "containsNull", "valueContainsNull"}
    return {key: True if key in said else _nullable(value) for key, value in node.items()}


def gathered(batches: Iterator["pa.RecordBatch"], size_bytes: int) -> Iterator["pa.Table"]:
    """Tables of at least this size, but for the last: what a task holds in memory at a time."""
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    waiting_bytes = 0
    for batch in batches:
        waiting.append(batch)
        waiting_bytes += batch.nbytes
        if waiting_bytes >= size_bytes:
            yield pa.Table.from_batches(waiting)
            waiting, waiting_bytes = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)
