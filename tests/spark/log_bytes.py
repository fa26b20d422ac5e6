"""The batches of a topic as they lie in the log: what estimates and gaps are judged by."""

from collections.abc import Iterator
from dataclasses import dataclass

from ottla.base.types import Offset, TopicPartition
from ottla.client.raw.cluster import Cluster
from ottla.client.raw.fetching import PartitionReader
from tests.spark.brokers import AnyBroker


@dataclass(frozen=True, slots=True)
class BatchSpan:
    first: Offset
    end: Offset
    record_count: int
    size_bytes: int


def batch_spans(broker: AnyBroker, partition: TopicPartition) -> list[BatchSpan]:
    with Cluster(broker.bootstrap_servers, client_id="test", timeout_s=30) as cluster:
        return list(_spans(cluster, partition))


def _spans(cluster: Cluster, partition: TopicPartition) -> Iterator[BatchSpan]:
    reader = PartitionReader(cluster, partition, read_committed=True, fetch_bytes=4 << 20, max_wait_ms=0)
    fetched = reader.fetch(0)
    while fetched.batches:
        for batch in fetched.batches:
            header = batch.header
            yield BatchSpan(header.base_offset, header.next_offset, header.record_count, len(batch.view))
        fetched = reader.fetch(fetched.next_offset)


def bytes_between(spans: list[BatchSpan], low: Offset, high: Offset) -> float:
    """A batch that is cut counts by the share of its offsets."""
    return sum(
        span.size_bytes * max(0, min(high, span.end) - max(low, span.first)) / (span.end - span.first) for span in spans
    )
