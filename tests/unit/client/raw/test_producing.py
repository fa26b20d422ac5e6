"""Batches arrive once and in order, whatever happens on the way: librdkafka's mock cluster fails as it is told."""

import threading
from collections.abc import Iterator

import pytest

import ottla.testing
from ottla.base.errors import ErrorCode
from ottla.base.types import TopicPartition
from ottla.client import Admin, ClientError
from ottla.client.raw import producing
from ottla.client.raw.cluster import Cluster
from ottla.client.raw.fetching import PartitionReader
from ottla.client.raw.producing import BatchSender
from ottla.client.raw.topic_leaders import TopicLeaders
from ottla.client.raw.transactions import init_idempotent
from ottla.wire.apis import ApiKey
from ottla.wire.records import BatchBuilder, records_of
from tests.unit.client.conftest import MockCluster


def sender_to(cluster: Cluster, delivery_timeout_s: float = 20.0) -> BatchSender:
    return BatchSender(
        TopicLeaders(cluster, timeout_s=10),
        {},
        init_idempotent(cluster, timeout_s=10),
        client_id="test",
        request_timeout_s=10,
        delivery_timeout_s=delivery_timeout_s,
    )


def batch_of(*values: bytes) -> bytearray:
    builder = BatchBuilder()
    for value in values:
        builder.append(1, None, value)
    return builder.build()


def values_in(cluster: Cluster, partition: TopicPartition) -> list[bytes | None]:
    reader = PartitionReader(cluster, partition, read_committed=False, fetch_bytes=1 << 20, timeout_s=10)
    found: list[bytes | None] = []
    offset = 0
    while True:
        fetched = reader.fetch(offset)
        found += [record.value for batch in fetched.batches for record in records_of(batch.view)]
        offset = fetched.next_offset
        if offset >= fetched.end_offset:
            return found


@pytest.fixture
def cluster(mock_cluster: MockCluster) -> Iterator[Cluster]:
    with Cluster(mock_cluster.bootstrap_servers, client_id="test", timeout_s=10) as found:
        yield found


def test_what_passes_is_sent_again_in_order(
    mock_cluster: MockCluster, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producing, "REQUEST_BYTES", 1)
    topic = mock_cluster.topic(partitions=3)
    sender = sender_to(cluster)
    mock_cluster.fail_next(
        ApiKey.PRODUCE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NONE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    )
    for number in range(9):
        values = [b"%d" % number, b"and"]
        sender.send(TopicPartition(topic, number % 3), batch_of(*values), len(values))
    sender.flush()
    for index in range(3):
        expected = [value for number in range(index, 9, 3) for value in (b"%d" % number, b"and")]
        assert values_in(cluster, TopicPartition(topic, index)) == expected


def test_what_does_not_pass_is_raised_at_once(mock_cluster: MockCluster, cluster: Cluster) -> None:
    partition = TopicPartition(mock_cluster.topic(), 0)
    sender = sender_to(cluster)
    mock_cluster.fail_next(ApiKey.PRODUCE, ErrorCode.MESSAGE_TOO_LARGE)
    sender.send(partition, batch_of(b"v"), 1)
    with pytest.raises(ClientError, match="MESSAGE_TOO_LARGE"):
        sender.flush()


def test_what_goes_on_failing_is_raised_in_the_end(mock_cluster: MockCluster, cluster: Cluster) -> None:
    partition = TopicPartition(mock_cluster.topic(), 0)
    sender = sender_to(cluster, delivery_timeout_s=0.2)
    mock_cluster.fail_next(ApiKey.PRODUCE, *[ErrorCode.NOT_ENOUGH_REPLICAS] * 100)
    sender.send(partition, batch_of(b"v"), 1)
    with pytest.raises(ClientError, match="NOT_ENOUGH_REPLICAS"):
        sender.flush()
    mock_cluster.fail_next(ApiKey.PRODUCE)


def test_a_broker_that_is_killed_has_every_batch_once() -> None:
    with ottla.testing.broker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topic("survivors", 2)
        with Cluster(broker.bootstrap_servers, client_id="test", timeout_s=10) as cluster:
            sender = sender_to(cluster, delivery_timeout_s=60)
            for number in range(20):
                sender.send(TopicPartition("survivors", number % 2), batch_of(b"%d" % number), 1)
                if number == 10:
                    sender.flush()
                    broker.kill()
                    revival = threading.Thread(target=broker.start)
                    revival.start()
            sender.flush()
            revival.join()
            for index in range(2):
                expected = [b"%d" % number for number in range(index, 20, 2)]
                assert values_in(cluster, TopicPartition("survivors", index)) == expected
