"""`spark.read.format("ottla")`: the records between two bounds, once."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from ottla.spark.offset_ranges import OffsetRange, Offsets, split
from ottla.spark.source_options import SourceOptions
from ottla.spark.topic_offsets import TopicOffsets

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class RangePartition(InputPartition):
    """What a task is given."""

    wanted: OffsetRange


def tasks(options: SourceOptions, topics: TopicOffsets, start: Offsets, end: Offsets) -> list[InputPartition]:
    ranges = split(
        start,
        end,
        min_ranges=options.min_partitions,
        max_bytes=options.max_bytes_per_task,
        bytes_per_offset=topics.bytes_per_offset(end),
    )
    return [RangePartition(one) for one in ranges]


def read_task(options: SourceOptions, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
    """In a worker, which alone needs Arrow."""
    from ottla.spark.range_reading import read_range

    assert isinstance(partition, RangePartition)
    return read_range(options, partition.wanted)


class OttlaReader(DataSourceReader):
    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        with TopicOffsets(self._options) as topics:
            partitions = topics.partitions()
            end = topics.ending(partitions)
            start = {one: min(offset, end[one]) for one, offset in topics.starting(partitions).items()}
            return tasks(self._options, topics, start, end)

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return read_task(self._options, partition)
