"""Runs of an exactly-once query without Spark: a `Driver` runs the tasks of micro-batches and commits what they prepared."""

import itertools
import uuid
from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa

from ottla.base.types import TopicPartition
from ottla.client.raw.cluster import Cluster
from ottla.client.raw.fetching import PartitionReader, committed_only
from ottla.spark.exactly_once import Prepared
from ottla.spark.sink_connections import SinkConnections, connections_of
from ottla.spark.sink_options import SinkOptions
from ottla.spark.task_transactions import TaskPlace
from ottla.wire.records import records_of
from tests.spark.brokers import AnyBroker
from tests.spark.crashing_sink import CrashingWriter, CrashPoint

TASKS = 3
ROWS = 5
PARTITIONS = 2

_clients = itertools.count()


@dataclass
class Query:
    broker: AnyBroker
    topic: str
    query_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def committed(self) -> Counter[bytes | None]:
        found: Counter[bytes | None] = Counter()
        with Cluster(self.broker.bootstrap_servers, client_id="reader", timeout_s=10) as cluster:
            for index in range(PARTITIONS):
                partition = TopicPartition(self.topic, index)
                reader = PartitionReader(cluster, partition, read_committed=True, fetch_bytes=1 << 20, max_wait_ms=0)
                offset, end = 0, 1
                while offset < end:
                    fetched = reader.fetch(offset)
                    for batch in committed_only(fetched.batches, fetched.aborted):
                        found.update(record.value for record in records_of(batch.view))
                    offset, end = fetched.next_offset, fetched.end_offset
        return found


class Driver:
    """In a process of its own, as far as connections and caches go."""

    def __init__(self, query: Query, crash: CrashPoint | None = None) -> None:
        options = SinkOptions.parse(
            {
                "kafka.bootstrap.servers": query.broker.bootstrap_servers,
                "topic": query.topic,
                "guarantee": "exactlyOnce",
                "kafka.client.id": f"driver-{next(_clients)}",
                "kafka.transaction.timeout.ms": "60000",
            }
        )
        self.query = query
        self.run_id = str(uuid.uuid4())
        self.writer = CrashingWriter(options, crash)
        self.connections: SinkConnections = connections_of(options)

    def task(self, batch_id: int, partition: int, attempt: int = 0, rows: int = ROWS) -> Prepared:
        place = TaskPlace(
            query_id=self.query.query_id, run_id=self.run_id, batch_id=batch_id, partition=partition, attempt=attempt
        )
        values = [f"{batch_id}-{partition}-{row}" for row in range(rows)]
        return self.writer.write_at(place, iter([pa.record_batch({"value": pa.array(values, pa.string())})]))

    def tasks(self, batch_id: int) -> list[Prepared]:
        return [self.task(batch_id, partition) for partition in range(TASKS)]

    def batch(self, batch_id: int) -> None:
        """As Spark runs it: what cannot be committed is aborted."""
        prepared = self.tasks(batch_id)
        try:
            self.writer.commit(prepared, batch_id)
        except Exception:
            self.writer.abort(prepared, batch_id)
            raise


def rows_of(*batch_ids: int) -> Counter[bytes | None]:
    return Counter(f"{one}-{task}-{row}".encode() for one in batch_ids for task in range(TASKS) for row in range(ROWS))
