"""`spark.read.format("ottla")`: the records between two bounds, once."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from ottla.base.types import Offset, TopicPartition
from ottla.spark.filter_pruning import Pruning
from ottla.spark.offset_ranges import OffsetRange
from ottla.spark.source_options import SourceOptions
from ottla.spark.task_planning import plan_ranges
from ottla.spark.topic_offsets import TopicOffsets

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class RangePartition(InputPartition):
    """What a task is given."""

    wanted: OffsetRange


def tasks(ranges: Iterable[OffsetRange]) -> list[InputPartition]:
    return [RangePartition(one) for one in ranges]


def read_task(options: SourceOptions, schema: StructType, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
    """In a worker, which alone needs Arrow."""
    if not isinstance(partition, RangePartition):
        return iter(())  # Spark's own stand-in where there is nothing to read.
    from ottla.spark.columns import arrow_schema
    from ottla.spark.range_reading import read_range

    return read_range(options, arrow_schema(options, schema), partition.wanted)


class OttlaReader(DataSourceReader):
    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._pruning = Pruning()

    def partitions(self) -> list[InputPartition]:
        with TopicOffsets(self._options) as topics:
            start, end = self._bounds(topics)
            return tasks(plan_ranges(self._options, topics, start, end))

    def _bounds(self, topics: TopicOffsets) -> tuple[dict[TopicPartition, Offset], dict[TopicPartition, Offset]]:
        partitions = topics.partitions()
        starting, ending = topics.starting(partitions), topics.ending(partitions)
        kept = [one for one in partitions if self._pruning.keeps(one)]
        if self._pruning.first_timestamp_ms is not None:
            since = topics.since(kept, self._pruning.first_timestamp_ms)
            for one, offset in since.items():
                starting[one] = max(starting[one], ending[one] if offset is None else offset)
        narrowed = {one: self._pruning.narrowed(starting[one], ending[one]) for one in kept}
        return {one: start for one, (start, _) in narrowed.items()}, {one: end for one, (_, end) in narrowed.items()}

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return read_task(self._options, self._schema, partition)


class FilteringReader(OttlaReader):
    """With `pushFilters=true`. A class of its own: where the session does not allow pushing, Spark refuses any reader
    that has this method."""

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        for one in filters:
            if not self._pruning.push(one):
                yield one
