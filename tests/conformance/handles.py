"""Transactions by handle, as a sink of two phases has them: begun and written to here, ended by whoever has the handle."""

from ottla.base.types import TopicPartition
from ottla.client.raw.cluster import Cluster
from ottla.client.raw.transactions import TransactionHandle
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.records import BatchBuilder

TIMESTAMP_MS = 1_700_000_000_000


def write(cluster: Cluster, handle: TransactionHandle, topic: str, *values: bytes) -> None:
    """The first batch of the transaction, to partition 0."""
    builder = BatchBuilder(
        producer_id=handle.producer_id, producer_epoch=handle.epoch, base_sequence=0, transactional=True
    )
    for value in values:
        builder.append(TIMESTAMP_MS, None, value)
    data = api.ProduceRequest.PartitionProduceData(index=0, records=memoryview(builder.build()))
    topic_id = cluster.metadata([topic]).topics[0].topic_id
    request = api.ProduceRequest(
        transactional_id=handle.transactional_id,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[api.ProduceRequest.TopicProduceData(name=topic, topic_id=topic_id, partition_data=[data])],
    )
    leader = cluster.leaders([topic])[TopicPartition(topic, 0)]
    answer = cluster.ask(ApiKey.PRODUCE, request, api.ProduceResponse, at=leader)
    assert answer.responses[0].partition_responses[0].error_code == 0
