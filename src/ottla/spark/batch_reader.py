"""`spark.read.format("ottla")`: the records between two bounds, once."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from ottla.spark.offset_ranges import OffsetRange, split
from ottla.spark.source_options import SourceOptions
from ottla.spark.topic_offsets import TopicOffsets

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class RangePartition(InputPartition):
    """What a task is given."""

    wanted: OffsetRange


class OttlaReader(DataSourceReader):
    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        options = self._options
        with TopicOffsets(options) as topics:
            partitions = topics.partitions()
            start, end = topics.starting(partitions), topics.ending(partitions)
            start = {one: min(offset, end[one]) for one, offset in start.items()}
            ranges = split(
                start,
                end,
                min_ranges=options.min_partitions,
                max_bytes=options.max_bytes_per_task,
                bytes_per_offset=topics.bytes_per_offset(partitions),
            )
        return [RangePartition(one) for one in ranges]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        from ottla.spark.range_reading import read_range

        assert isinstance(partition, RangePartition)
        return read_range(self._options, partition.wanted)
