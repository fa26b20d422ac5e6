"""Arrow batches of rows to the partitions of their topics: what a task of either guarantee does with its rows."""

import itertools
import random
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ottla.base.types import TopicPartition
from ottla.client.raw.transactions import ProducerIdentity
from ottla.spark.partitioning import choose_partitions
from ottla.spark.record_encoding import EncodedBatch, encode_batches
from ottla.spark.sink_columns import TopicRows, rows_by_topic
from ottla.spark.sink_connections import SinkConnections

PartitionBatches = Iterator[tuple[TopicPartition, EncodedBatch]]


class RowWriter:
    """Writes under one producer's identity; `finish` returns when all is acknowledged."""

    def __init__(
        self, connections: SinkConnections, identity: ProducerIdentity, transactional_id: str | None = None
    ) -> None:
        self._options = connections.options
        self._leaders = connections.leaders()
        self._sender = connections.sender(self._leaders, identity, transactional_id)
        self._chance = random.Random()

    def write(self, batch: pa.RecordBatch) -> None:
        for topic_rows in rows_by_topic(batch, self._options.topic):
            streams = self._batches_by_partition(topic_rows)
            # In turn, because a request takes one batch of each partition.
            for found in itertools.chain.from_iterable(itertools.zip_longest(*streams)):
                if found is not None:
                    partition, encoded = found
                    self._sender.send(partition, encoded.data, encoded.record_count)

    def finish(self) -> None:
        self._sender.flush()
        self._leaders.forget()  # By the next task a topic may have more partitions.

    def abandon(self) -> None:
        self._sender.abandon()

    def _batches_by_partition(self, found: TopicRows) -> list[PartitionBatches]:
        rows = found.rows
        chosen = choose_partitions(
            rows.keys,
            found.named_partitions,
            count=len(rows),
            partition_count=self._leaders.partition_count(found.topic),
            chance=self._chance,
        )
        order = np.argsort(chosen, kind="stable")
        numbers, starts = np.unique(chosen[order], return_index=True)
        streams: list[PartitionBatches] = []
        for number, indexes in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
            first, last = int(indexes[0]), int(indexes[-1])
            # Neighbours, as rows without a key are, need no copy.
            own = rows.slice(first, last + 1) if last - first < len(indexes) else rows.take(indexes)
            partition = TopicPartition(found.topic, number)
            encoded = encode_batches(own, batch_bytes_max=self._options.batch_bytes_max, codec=self._options.codec)
            streams.append(zip(itertools.repeat(partition), encoded))
        return streams
