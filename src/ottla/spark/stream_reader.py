"""`spark.readStream.format("ottla")`: offsets are Spark's, kept in the checkpoint; a named group sees them, too.

A partition that the checkpoint does not know was created since and is read from its start.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from ottla.base.errors import ErrorCode
from ottla.base.types import Offset, TopicPartition
from ottla.spark.batch_reader import read_task, tasks
from ottla.spark.data_loss import tell_lost
from ottla.spark.offset_ranges import limit_bytes, limit_offsets
from ottla.spark.source_options import SourceOptions
from ottla.spark.stream_position import StreamPosition
from ottla.spark.task_planning import plan_ranges
from ottla.spark.topic_offsets import TopicOffsets, topic_error

if TYPE_CHECKING:
    import pyarrow as pa

Offsets = dict[TopicPartition, Offset]

logger = logging.getLogger(__name__)


class OttlaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._topics = TopicOffsets(options)
        self._target: StreamPosition | None = None
        """Where a query with the trigger availableNow ends."""
        self._waiting_since: float | None = None
        self._missing_told: set[str] = set()

    # -- offsets -----------------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        partitions, ids = self._topics.partitions_and_ids()
        return StreamPosition(offsets=self._topics.starting(partitions), topic_ids=ids).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        options = self._options
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._latest()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begun = StreamPosition.from_json(start)
        end = self._not_before(begun, self._target or self._latest())
        self._tell_missing(begun, end)
        first = self._first_offsets(begun, end)
        # Spark asks only after the batch that ended at `start` is done, at the end of a run as well: `commit` is not
        # called for the last batch of one.
        if self._options.group_id:
            self._topics.mirror(self._options.group_id, first)
        if self._target is None and self._must_wait(first, end.offsets):
            return begun.to_json()
        return end.at(self._limited(first, dict(end.offsets), limit)).to_json()

    def _latest(self) -> StreamPosition:
        partitions, ids = self._topics.partitions_and_ids(only_there=True)
        return StreamPosition(offsets=self._topics.latest(partitions), topic_ids=ids)

    def _tell_missing(self, begun: StreamPosition, end: StreamPosition) -> None:
        """Topics asked for by name that are not there. One that was read before is a loss, which is told as such."""
        for topic in sorted(self._options.topic_names - end.topic_ids.keys() - self._missing_told):
            if not self._options.fail_on_data_loss:
                logger.warning("%s is not there: going on without it, because of failOnDataLoss=false", topic)
                self._missing_told.add(topic)
            elif topic not in begun.topic_ids:
                raise topic_error(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _not_before(self, begun: StreamPosition, end: StreamPosition) -> StreamPosition:
        """Records behind an open transaction are no end that moved back: a group may have read past it."""
        behind = [
            one
            for one, last in end.offsets.items()
            if last < begun.offsets.get(one, 0) and begun.has_same_topic(end, one.topic)
        ]
        written = self._topics.high_watermarks(behind) if behind else {}
        still_there = {one: begun.offsets[one] for one in behind if written[one] >= begun.offsets[one]}
        return end.at({**end.offsets, **still_there})

    def _first_offsets(self, begun: StreamPosition, end: StreamPosition) -> Offsets:
        """Where the next micro-batch begins in every partition that there is; loss is told."""
        first: Offsets = {}
        for one, last in end.offsets.items():
            known = begun.offsets.get(one)
            if known is None:
                continue
            if not begun.has_same_topic(end, one.topic):
                tell_lost(self._options, f"{one.topic} was deleted and created anew since {one} was read up to {known}")
            elif last < known:
                tell_lost(self._options, f"{one} ends at {last}, before {known}")
            else:
                first[one] = known
        for one in sorted(begun.offsets.keys() - end.offsets.keys()):
            tell_lost(
                self._options, f"{one} was read up to {begun.offsets[one]} and is not there or not asked for any more"
            )
        new = self._topics.earliest([one for one in end.offsets if one not in first])
        return {**first, **{one: min(offset, end.offsets[one]) for one, offset in new.items()}}

    def _limited(self, start: Offsets, end: Offsets, limit: ReadLimit) -> Offsets:
        if isinstance(limit, ReadMaxRows):
            return limit_offsets(start, end, limit.max_rows)
        if isinstance(limit, ReadMaxBytes):
            limited = limit_bytes(start, end, limit.max_bytes, self._topics)
            return limit_offsets(start, limited, self._options.max_offsets_per_trigger)
        return end

    def _must_wait(self, start: Offsets, end: Mapping[TopicPartition, Offset]) -> bool:
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
        return self._latest().to_json()

    # -- reading -----------------------------------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        last = StreamPosition.from_json(end)
        first = self._first_offsets(StreamPosition.from_json(start), last)
        return tasks(plan_ranges(self._options, self._topics, first, last.offsets))

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return read_task(self._options, self._schema, partition)

    def stop(self) -> None:
        self._topics.close()
