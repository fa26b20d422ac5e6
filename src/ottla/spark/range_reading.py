"""A task's work: fetch a range of offsets and decode it to Arrow, a few megabytes at a time.

Gaps (compacted records, transaction markers, aborted data) are no loss. Loss is when the range begins before the log
does, or when the log ends before the range: then the task fails, or goes on with what there is (`failOnDataLoss`).
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from ottla.base.types import Offset
from ottla.client.raw.cluster import Cluster
from ottla.client.raw.fetching import Fetched, PartitionReader, committed_only, data_only
from ottla.client.raw.offsets import EARLIEST, list_offsets
from ottla.spark.columns import column_names, record_batch
from ottla.spark.offset_ranges import OffsetRange
from ottla.spark.record_columns import decode_columns
from ottla.spark.source_options import SourceOptions

FETCH_BYTES: Final = 4 << 20

_clusters: dict[str, Cluster] = {}
"""Workers are used again for further tasks, and so are their connections."""


class DataLost(Exception):
    """Offsets that were to be read are gone."""


def read_range(options: SourceOptions, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    cluster = _cluster(options)
    reader = PartitionReader(
        cluster,
        wanted.partition,
        read_committed=options.read_committed,
        fetch_bytes=FETCH_BYTES,
        timeout_s=options.timeout_seconds,
    )
    names = column_names(options)
    offset = _first_offset(cluster, options, wanted)
    while offset < wanted.end:
        fetched = reader.fetch(offset)
        if fetched.batches:
            batch = _visible(options, wanted, fetched, names, offset)
            if batch is not None:
                yield batch
            offset = fetched.next_offset
        elif fetched.end_offset < wanted.end:
            _lost(options, f"{wanted.partition} ends at {fetched.end_offset}, before {wanted.end}")
            return


def _visible(
    options: SourceOptions, wanted: OffsetRange, fetched: Fetched, names: Sequence[str], offset: Offset
) -> pa.RecordBatch | None:
    """The rows of a fetch that belong to the range; whole batches were fetched, so some may not."""
    found = fetched.batches
    visible = committed_only(found, fetched.aborted) if options.read_committed else data_only(found)
    columns = decode_columns(visible, with_headers="headers" in names)
    low, high = (int(edge) for edge in np.searchsorted(columns.offsets, [offset, wanted.end]))
    return record_batch(columns, wanted.partition, names, slice(low, high)) if high > low else None


def _first_offset(cluster: Cluster, options: SourceOptions, wanted: OffsetRange) -> Offset:
    """The range's start, or where the log begins by now."""
    found = list_offsets(cluster, {wanted.partition: EARLIEST}, read_committed=options.read_committed)
    earliest = found[wanted.partition] or 0
    if earliest > wanted.start:
        _lost(options, f"{wanted.partition} begins at {earliest}, behind {wanted.start}")
    return max(earliest, wanted.start)


def _lost(options: SourceOptions, what: str) -> None:
    if options.fail_on_data_loss:
        raise DataLost(f"{what}: records that were to be read are gone. Set failOnDataLoss=false to go on without them")


def _cluster(options: SourceOptions) -> Cluster:
    cluster = _clusters.get(options.bootstrap_servers)
    if cluster is None:
        cluster = _clusters[options.bootstrap_servers] = Cluster(
            options.bootstrap_servers, client_id="ottla-spark-task", timeout_s=options.timeout_seconds
        )
    return cluster
