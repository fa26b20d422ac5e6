"""The bulk producer and consumer against librdkafka's mock cluster."""

import pytest

from ottla.base.errors import ErrorCode
from ottla.client.bulk import (
    LoadConsumer,
    LoadError,
    LoadProducer,
    MessageBlock,
    is_partition_end,
    message_at,
    payload_at,
)
from ottla.client.load import consume_load, produce_load
from ottla.wire.apis import ApiKey

from .conftest import MockCluster

NOWHERE = "127.0.0.1:1"


def test_payloads_are_cycled_through(mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic()
    load = produce_load(mock_cluster.bootstrap_servers, topic, payloads=[b"a", b"bb", b""], count=7)
    assert load.bytes == 2 * 3 + 1
    with LoadConsumer(mock_cluster.bootstrap_servers, topic) as consumer:
        consumer.start(0, 0)
        addresses = consumer.read(limit=7, timeout_ms=10_000)
        assert [payload_at(address) for address in addresses] == [b"a", b"bb", b"", b"a", b"bb", b"", b"a"]
        assert [message_at(address).offset for address in addresses] == list(range(7))
        consumer.release()


def test_one_message_and_its_acknowledgement(mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic()
    block = MessageBlock([b"payload"], length=1)
    with LoadProducer(mock_cluster.bootstrap_servers, topic, config={"linger.ms": 0}, every_delivery=True) as producer:
        for _ in range(3):
            producer.send_and_wait(block)
            assert producer.undelivered_count == 0
    assert consume_load(mock_cluster.bootstrap_servers, topic, count=3).messages == 3


def test_copied_payloads_may_change_between_sends(mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic()
    block = MessageBlock([b"0-rest"], length=2)
    with LoadProducer(mock_cluster.bootstrap_servers, topic) as producer:
        for stamp in (b"1", b"2"):
            block.overwrite(0, stamp)
            producer.send(block, 2, copy=True)
        producer.wait_delivered()
    with LoadConsumer(mock_cluster.bootstrap_servers, topic) as consumer:
        consumer.start(0, 0)
        addresses = consumer.read(limit=4, timeout_ms=10_000)
        assert [payload_at(address) for address in addresses] == [b"1-rest", b"1-rest", b"2-rest", b"2-rest"]
        assert payload_at(addresses[0], first_bytes=1) == b"1"
        consumer.release()


def test_the_end_of_a_partition_is_told_apart(mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic()
    produce_load(mock_cluster.bootstrap_servers, topic, message_bytes=10, count=2)
    with LoadConsumer(mock_cluster.bootstrap_servers, topic, config={"enable.partition.eof": True}) as consumer:
        consumer.start(0, 0)
        addresses = consumer.read(limit=3, timeout_ms=10_000)
        assert [is_partition_end(address) for address in addresses] == [False, False, True]
        consumer.release()


def test_a_refused_single_message_is_an_error(mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic()
    mock_cluster.fail_next(ApiKey.PRODUCE, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with LoadProducer(mock_cluster.bootstrap_servers, topic, every_delivery=True) as producer, pytest.raises(LoadError):
        producer.send_and_wait(MessageBlock([b"payload"], length=1))


def test_a_message_that_times_out_is_an_error() -> None:
    config = {"message.timeout.ms": 50}
    with LoadProducer(NOWHERE, "topic", config=config) as producer, pytest.raises(LoadError, match="not delivered"):
        producer.send(MessageBlock([b"payload"], length=1), 1)
        producer.wait_delivered()


def test_patience_ends_when_no_acknowledgement_comes() -> None:
    block = MessageBlock([b"payload"], length=2)
    with LoadProducer(NOWHERE, "topic", stall_seconds_max=0.1) as producer:
        producer.send(block, 2)
        with pytest.raises(LoadError, match=r"no acknowledgement in 0\.1 s"):
            producer.wait_delivered()


def test_patience_ends_when_the_queue_stays_full() -> None:
    block = MessageBlock([b"payload"], length=2)
    config = {"queue.buffering.max.messages": 1}
    with (
        LoadProducer(NOWHERE, "topic", config=config, stall_seconds_max=0.1) as producer,
        pytest.raises(LoadError, match=r"no acknowledgement in 0\.1 s"),
    ):
        producer.send(block, 2)
