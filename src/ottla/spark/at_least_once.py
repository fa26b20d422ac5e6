"""The sink's default: rows are acknowledged before their task is done, and a task that is run again writes its again.

The producer is idempotent, so that nothing is doubled or reordered by the network; only Spark's repetitions are seen.
A worker keeps its producer from task to task: brokers remember every producer for a day.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from ottla.spark.sink_options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.spark.row_writing import RowWriter

_idle_writers: dict[SinkOptions, "RowWriter"] = {}


class AtLeastOnceWriter(DataSourceArrowWriter):
    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        return write_task(self._options, iterator)


class AtLeastOnceStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        return write_task(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """All rows are written when their tasks are done."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """What is written stays."""


def write_task(options: SinkOptions, batches: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
    """In a worker, which alone needs Arrow."""
    writer = _idle_writers.pop(options, None) or _new_writer(options)
    try:
        for batch in batches:
            writer.write(batch)
        writer.finish()
    except BaseException:
        writer.abandon()
        raise
    _idle_writers[options] = writer
    return WriterCommitMessage()


def _new_writer(options: SinkOptions) -> "RowWriter":
    from ottla.client.raw.transactions import init_idempotent
    from ottla.spark.row_writing import RowWriter
    from ottla.spark.sink_connections import connections_of

    connections = connections_of(options)
    identity = init_idempotent(connections.cluster, timeout_s=options.max_block_ms / 1000)
    return RowWriter(connections, identity)
