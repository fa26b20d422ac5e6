"""Transactions against librdkafka's mock cluster: the calls, their order, their errors."""

import itertools

import pytest

from ottla.client import ClientError, ConfigError, Consumer, Producer, TopicPartition
from ottla.client.errors import ClosedError

from .conftest import MockCluster

IDS = (f"transaction-{number}" for number in itertools.count())
ADD_OFFSETS_TO_TXN, END_TXN, INIT_PRODUCER_ID = 25, 26, 22
WAIT_MS = 20_000


def open_producer(cluster: MockCluster, **options: object) -> Producer:
    return Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=next(IDS), **options)


def test_consume_transform_produce_in_one_transaction(mock_cluster: MockCluster) -> None:
    orders, inventory, source = (mock_cluster.topic() for _ in range(3))
    with Producer(bootstrap_servers=mock_cluster.bootstrap_servers) as feeder:
        feeder.send(source, "order")
    options = {"bootstrap.servers": mock_cluster.bootstrap_servers, "auto.offset.reset": "earliest", "group.id": "ctp"}
    with Consumer(options) as consumer, open_producer(mock_cluster) as producer:
        consumer.assign(TopicPartition(source, 0))
        records = consumer.poll(WAIT_MS)
        producer.begin_transaction()
        sent = [producer.send(orders, "o", "order_1"), producer.send(inventory, "i", "item_42")]
        producer.send_offsets_to_transaction(records.next_offsets())
        producer.commit_transaction()
        assert [delivery.get(0).topic for delivery in sent] == [orders, inventory]


def test_offsets_by_group_id_or_consumer(mock_cluster: MockCluster) -> None:
    offsets = {TopicPartition(mock_cluster.topic(), 0): 7}
    with (
        Consumer(bootstrap_servers=mock_cluster.bootstrap_servers, group_id="by-hand") as consumer,
        open_producer(mock_cluster) as producer,
    ):
        for group in ("by-hand", consumer):
            mock_cluster.count_requests()
            producer.begin_transaction()
            producer.send_offsets_to_transaction(offsets, group)
            producer.commit_transaction()
            assert mock_cluster.requests()[ADD_OFFSETS_TO_TXN] == 1
        producer.begin_transaction()
        with pytest.raises(TypeError, match="give the consumer, or its group id"):
            producer.send_offsets_to_transaction(offsets)
        producer.abort_transaction()


def test_a_block_commits_at_its_end_and_aborts_when_it_raises(mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic()
    with open_producer(mock_cluster) as producer:
        with producer.transaction():
            producer.send(topic, "x")
        unsent = None
        with pytest.raises(ZeroDivisionError), producer.transaction():
            unsent = producer.send(topic, "y")
            raise ZeroDivisionError
        assert unsent is not None
        assert unsent.done()
        with producer.transaction():
            assert producer.send(topic, "z") is not None


def test_sending_outside_of_a_transaction_says_what_to_do(mock_cluster: MockCluster) -> None:
    with open_producer(mock_cluster) as producer:
        producer.init_transactions()
        with pytest.raises(ClientError, match=r"_STATE.*begin_transaction"):
            producer.send(mock_cluster.topic(), "x")


def test_a_fenced_producer_is_told_so_and_is_done(mock_cluster: MockCluster) -> None:
    with open_producer(mock_cluster) as producer:
        producer.begin_transaction()
        producer.send(mock_cluster.topic(), "x")
        mock_cluster.fail_next(END_TXN, 90)
        with pytest.raises(ClientError, match=r"transactional.id: give each running instance its own") as caught:
            producer.commit_transaction()
        assert caught.value.fatal


def test_acks_cannot_leave_the_transaction(mock_cluster: MockCluster) -> None:
    with open_producer(mock_cluster) as producer:
        producer.begin_transaction()
        with pytest.raises(ConfigError, match="cannot be part of a transaction"):
            producer.send("t", "x", acks=1)
        producer.abort_transaction()


def test_a_transaction_needs_an_id(mock_cluster: MockCluster) -> None:
    with (
        Producer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer,
        pytest.raises(ConfigError, match="need a transactional"),
    ):
        producer.begin_transaction()


def test_a_closed_producer_commits_nothing(mock_cluster: MockCluster) -> None:
    producer = open_producer(mock_cluster)
    producer.begin_transaction()
    producer.close()
    for call in (producer.commit_transaction, producer.begin_transaction):
        with pytest.raises(ClosedError, match="open another"):
            call()
