"""A task's work: fetch a range of offsets and decode it to Arrow, a few megabytes at a time.

Gaps (compacted records, transaction markers, aborted data) are no loss. Loss is when the range begins before the log
does, or when the log ends before the range: then the task fails, or goes on with what there is (`failOnDataLoss`).
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from ottla.base.types import Offset
from ottla.client.raw.cluster import Cluster
from ottla.client.raw.fetching import Fetched, PartitionReader, committed_only, data_only
from ottla.client.raw.offsets import EARLIEST, list_offsets
from ottla.client.raw.patience import patiently
from ottla.client.raw.security import Security
from ottla.spark.data_loss import tell_lost
from ottla.spark.offset_ranges import OffsetRange
from ottla.spark.record_columns import decode_columns
from ottla.spark.row_batches import RowBatches
from ottla.spark.source_options import SourceOptions
from ottla.spark.topic_offsets import PASSING
from ottla.wire.records import Batch

FETCH_BYTES: Final = 4 << 20

_clusters: dict[tuple[str, Security], Cluster] = {}
"""Workers are used again for further tasks, and so are their connections."""


def read_range(options: SourceOptions, schema: pa.Schema, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    cluster = _cluster(options)
    reader = PartitionReader(
        cluster,
        wanted.partition,
        read_committed=options.read_committed,
        fetch_bytes=FETCH_BYTES,
        timeout_s=options.timeout_seconds,
    )
    rows = RowBatches(options, schema, wanted.partition)
    offset = _first_offset(cluster, options, wanted)
    while offset < wanted.end:
        fetched = reader.fetch(offset)
        if fetched.batches:
            visible = _visible(options, fetched)
            # Whole batches were fetched: some of their records may lie outside the range.
            records = decode_columns(fetched.records, visible, with_headers=rows.needs_headers).between(
                offset, wanted.end
            )
            if len(records):
                yield rows.build(records)
            offset = fetched.next_offset
        elif fetched.end_offset < wanted.end and (end := reader.end_offset()) < wanted.end:
            tell_lost(options, f"{wanted.partition} ends at {end}, before {wanted.end}")
            return


def _visible(options: SourceOptions, fetched: Fetched) -> list[Batch]:
    if options.read_committed:
        return committed_only(fetched.batches, fetched.aborted)
    return data_only(fetched.batches)


def _first_offset(cluster: Cluster, options: SourceOptions, wanted: OffsetRange) -> Offset:
    """The range's start, or where the log begins by now."""

    def ask() -> Offset | None:
        earliest = {wanted.partition: EARLIEST}
        return list_offsets(cluster, earliest, read_committed=options.read_committed)[wanted.partition]

    earliest = patiently(ask, passing=PASSING, timeout_s=options.timeout_seconds) or 0
    if earliest > wanted.start:
        tell_lost(options, f"{wanted.partition} begins at {earliest}, behind {wanted.start}")
    return max(earliest, wanted.start)


def _cluster(options: SourceOptions) -> Cluster:
    reached_by = options.bootstrap_servers, options.security
    if reached_by not in _clusters:
        _clusters[reached_by] = Cluster(
            options.bootstrap_servers,
            client_id="ottla-spark-task",
            timeout_s=options.timeout_seconds,
            security=options.security,
        )
    return _clusters[reached_by]
