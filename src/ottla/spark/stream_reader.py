"""`spark.readStream.format("ottla")`: offsets are Spark's, kept in the checkpoint; a named group sees them, too.

Offsets in the checkpoint: {"version": 1, "topics": {topic: {partition: next offset}}}, for ever. A partition that the
checkpoint does not know was created since and is read from its start.
"""

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from ottla.base.types import Offset, TopicPartition
from ottla.spark.batch_reader import read_task, tasks
from ottla.spark.offset_ranges import limit_bytes, limit_offsets
from ottla.spark.source_options import SourceOptions
from ottla.spark.topic_offsets import TopicOffsets

if TYPE_CHECKING:
    import pyarrow as pa

LAYOUT_VERSION: Final = 1

Offsets = dict[TopicPartition, Offset]


class OttlaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._topics = TopicOffsets(options)
        self._target: Offsets | None = None
        """Where a query with the trigger availableNow ends."""
        self._waiting_since: float | None = None

    # -- offsets -----------------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        return to_json(self._topics.starting(self._topics.partitions()))

    def getDefaultReadLimit(self) -> ReadLimit:
        options = self._options
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._topics.latest(self._topics.partitions())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begun = from_json(start)
        # Spark asks only after the batch that ended at `start` is done, at the end of a run as well: `commit` is not
        # called for the last batch of one.
        if self._options.group_id:
            self._topics.mirror(self._options.group_id, begun)
        end = dict(self._target) if self._target is not None else self._topics.latest(self._topics.partitions())
        begun |= self._topics.earliest([one for one in end if one not in begun])
        end = {one: max(offset, begun.get(one, 0)) for one, offset in end.items()}
        if self._target is None and self._must_wait(begun, end):
            return to_json({one: begun[one] for one in end})
        return to_json(self._limited(begun, end, limit))

    def _limited(self, start: Offsets, end: Offsets, limit: ReadLimit) -> Offsets:
        if isinstance(limit, ReadMaxRows):
            return limit_offsets(start, end, limit.max_rows)
        if isinstance(limit, ReadMaxBytes):
            limited = limit_bytes(start, end, limit.max_bytes, self._topics.bytes_per_offset(end))
            return limit_offsets(start, limited, self._options.max_offsets_per_trigger)
        return end

    def _must_wait(self, start: Offsets, end: Offsets) -> bool:
        """Whether there is too little for a micro-batch yet (minOffsetsPerTrigger, maxTriggerDelay)."""
        enough = self._options.min_offsets_per_trigger
        if enough is None:
            return False
        now = time.monotonic()
        if self._waiting_since is None:
            self._waiting_since = now
        waiting = sum(end[one] - start[one] for one in end)
        if waiting >= enough or now - self._waiting_since >= self._options.max_trigger_delay_seconds:
            self._waiting_since = None
            return False
        return True

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return to_json(self._topics.latest(self._topics.partitions()))

    # -- reading -----------------------------------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        first, last = from_json(start), from_json(end)
        first |= self._topics.earliest([one for one in last if one not in first])
        return tasks(self._options, self._topics, first, last)

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return read_task(self._options, partition)

    def stop(self) -> None:
        self._topics.close()


def to_json(offsets: Mapping[TopicPartition, Offset]) -> dict[str, Any]:
    topics: dict[str, dict[str, int]] = {}
    for partition, offset in sorted(offsets.items()):
        topics.setdefault(partition.topic, {})[str(partition.partition)] = offset
    return {"version": LAYOUT_VERSION, "topics": topics}


def from_json(offsets: Mapping[str, Any]) -> Offsets:
    if offsets["version"] != LAYOUT_VERSION:
        raise ValueError(f"the checkpoint has offsets of version {offsets['version']}: a newer Ottla wrote it")
    return {
        TopicPartition(topic, int(index)): offset
        for topic, numbers in offsets["topics"].items()
        for index, offset in numbers.items()
    }
