"""The producer against librdkafka's mock cluster."""

import gc
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.client import HASH, ClientError, ConfigError, Consumer, Producer, ProducerRecord, RecordMetadata, RoundRobin
from ottla.client.errors import BufferFull, ClosedError
from ottla.client.murmur2 import partition_of_key
from ottla.client.serializers import to_json

from .conftest import MockCluster

PRODUCE = 0
NOWHERE = "127.0.0.1:1"
WAIT_S = 20.0


@pytest.fixture
def producer(mock_cluster: MockCluster) -> Iterator[Producer]:
    with Producer(bootstrap_servers=mock_cluster.bootstrap_servers) as opened:
        yield opened


def read_all(cluster: MockCluster, topic: str, count: int) -> list[Any]:
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(consumer.partitions_for(topic))
        records: list[Any] = []
        while len(records) < count:
            polled = consumer.poll(10_000)
            assert polled, f"{len(records)} of {count} records"
            records.extend(polled)
    return records


def test_send_tells_where_the_record_went(producer: Producer, mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic()
    first, second = (producer.send(topic, value).get(WAIT_S) for value in ("one", b"two"))
    assert (first.topic, first.partition, first.offset, second.offset) == (topic, 0, 0, 1)
    assert [record.value for record in read_all(mock_cluster, topic, 2)] == [b"one", b"two"]


def test_a_record_arrives_with_all_its_parts(producer: Producer, mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic(partitions=3)
    producer.send(
        topic, None, "key", partition=2, headers={"trace": "abc", "none": None}, timestamp_ms=1_700_000_000_000
    ).get(WAIT_S)
    (record,) = read_all(mock_cluster, topic, 1)
    assert (record.partition, record.key, record.value, record.timestamp) == (2, b"key", None, 1_700_000_000_000)
    assert record.headers == [("trace", b"abc"), ("none", None)]


def test_a_producer_record_and_a_callback(producer: Producer, mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic()
    told: list[tuple[RecordMetadata | None, ClientError | None]] = []
    delivery = producer.send(
        ProducerRecord(topic, "key", "value"), lambda metadata, error: told.append((metadata, error))
    )
    metadata = delivery.get(WAIT_S)
    producer.flush(WAIT_S)
    assert told == [(metadata, None)]
    assert read_all(mock_cluster, topic, 1)[0][5:7] == (b"key", b"value")


def test_a_refused_record_is_an_error_for_the_waiter_and_the_callback(
    producer: Producer, mock_cluster: MockCluster
) -> None:
    topic = mock_cluster.topic()
    told: list[ClientError | None] = []
    mock_cluster.fail_next(PRODUCE, 10)
    delivery = producer.send(topic, "x", on_delivery=lambda _, error: told.append(error))
    with pytest.raises(ClientError, match=r"MESSAGE_TOO_LARGE.*Raise the topic's max.message.bytes"):
        delivery.get(WAIT_S)
    assert told == [delivery.exception()]


def test_a_transient_refusal_is_retried_unseen(producer: Producer, mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic()
    mock_cluster.fail_next(PRODUCE, 19, 7)
    assert producer.send(topic, "x").get(WAIT_S).offset == 0


def test_a_record_beyond_max_request_size_is_refused_at_once(producer: Producer, mock_cluster: MockCluster) -> None:
    with pytest.raises(ClientError, match="MESSAGE_TOO_LARGE"):
        producer.send(mock_cluster.topic(), b"x" * 1_048_577)


def test_a_partition_that_is_not_there_is_refused(producer: Producer, mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic()
    with pytest.raises(ClientError, match="partitions_for"):
        producer.send(topic, "x", partition=7).get(WAIT_S)


def test_a_callback_that_raises_harms_nobody(producer: Producer, mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic()
    producer.send(topic, "x", on_delivery=lambda *_: 1 / 0).get(WAIT_S)  # type: ignore[arg-type, return-value]
    assert producer.send(topic, "y").get(WAIT_S).offset == 1


def test_acks_per_call(producer: Producer, mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic()
    assert producer.send(topic, "a", acks=0).get(WAIT_S).offset == -1
    producer.flush(WAIT_S)
    read_all(mock_cluster, topic, 1)
    assert producer.send(topic, "b", acks=1).get(WAIT_S).offset == 1
    assert producer.send(topic, "c", acks="all").get(WAIT_S).offset == 2


def test_acks_per_call_go_with_the_producers_other_options(mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic()
    with Producer(bootstrap_servers=mock_cluster.bootstrap_servers, acks=1, retries=0) as producer:
        assert producer.send(topic, "a").get(WAIT_S).offset == 0
        assert producer.send(topic, "b", acks="all").get(WAIT_S).offset == 1


def test_min_insync_replicas_needs_acks_all(producer: Producer) -> None:
    with pytest.raises(ConfigError, match="acks='all' alone"):
        producer.send("t", "x", acks=1, min_insync_replicas=2)


def test_one_key_one_partition_whoever_computes_it(producer: Producer, mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic(partitions=12)
    keys = [f"user_{number}" for number in range(60)]
    by_librdkafka = [producer.send(topic, "x", key) for key in keys]
    by_us = [producer.send(topic, "x", key, partition=HASH) for key in keys]
    expected = [partition_of_key(key.encode(), 12) for key in keys]
    assert [delivery.get(WAIT_S).partition for delivery in by_librdkafka] == expected
    assert [delivery.get(WAIT_S).partition for delivery in by_us] == expected


def test_a_partitioner_of_the_callers(mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic(partitions=4)

    def select_partition(topic: str, key: bytes | None, value: bytes | None, num_partitions: int) -> int:
        return num_partitions - 1

    with Producer(bootstrap_servers=mock_cluster.bootstrap_servers, partitioner=select_partition) as producer:
        assert producer.send(topic, "x").get(WAIT_S).partition == 3
        assert producer.send(topic, "x", partition=0).get(WAIT_S).partition == 0


@pytest.mark.parametrize("name", ["round_robin", "org.apache.kafka.clients.producer.RoundRobinPartitioner"])
def test_a_partitioner_by_name(mock_cluster: MockCluster, name: str) -> None:
    topic = mock_cluster.topic(partitions=3)
    with Producer({"bootstrap.servers": mock_cluster.bootstrap_servers, "partitioner": name}) as producer:
        deliveries = [producer.send(topic, "x", "one key") for _ in range(6)]
        assert [delivery.get(WAIT_S).partition for delivery in deliveries] == [0, 1, 2, 0, 1, 2]


def test_partitions_of_a_topic(producer: Producer, mock_cluster: MockCluster) -> None:
    assert producer.partitions_for(mock_cluster.topic(partitions=5)) == [0, 1, 2, 3, 4]


def test_a_thousand_messages_in_about_ten_requests(mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic()
    with Producer(bootstrap_servers=mock_cluster.bootstrap_servers, linger_ms=1_000) as producer:
        producer.send(topic, "warm").get(WAIT_S)
        mock_cluster.count_requests()
        for _ in range(1_000):
            producer.send(topic, b"x" * 150)
        producer.flush(WAIT_S)
        assert 8 <= mock_cluster.requests()[PRODUCE] <= 20


def test_serializers(mock_cluster: MockCluster, producer: Producer) -> None:
    topic = mock_cluster.topic()
    with Producer(bootstrap_servers=mock_cluster.bootstrap_servers, value_serializer=to_json) as with_json:
        with_json.send(topic, {"amount": 100}).get(WAIT_S)
    assert read_all(mock_cluster, topic, 1)[0].value == b'{"amount":100}'
    with pytest.raises(TypeError, match="value_serializer"):
        producer.send(topic, {"amount": 100})


def test_threads_share_a_producer_and_each_keeps_its_order(producer: Producer, mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic()

    def send(name: str) -> None:
        for number in range(300):
            producer.send(topic, str(number), name)

    threads = [threading.Thread(target=send, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    producer.flush(WAIT_S)
    records = read_all(mock_cluster, topic, 1_200)
    for name in (b"a", b"b", b"c", b"d"):
        assert [int(record.value) for record in records if record.key == name] == list(range(300))


def test_a_full_buffer_waits_then_says_so() -> None:
    producer = Producer(bootstrap_servers=NOWHERE, buffer_memory=2_048, max_block_ms=50)
    producer.send("t", b"x" * 1_500)
    with pytest.raises(BufferFull, match=r"max.block.ms=50.*buffer.memory"):
        producer.send("t", b"x" * 1_500)
    producer.close(timeout_s=0)


def test_a_full_buffer_makes_room_for_a_patient_caller(mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic()
    with Producer(bootstrap_servers=mock_cluster.bootstrap_servers, buffer_memory=10_240) as producer:
        deliveries = [producer.send(topic, b"x" * 1_000) for _ in range(200)]
        producer.flush(WAIT_S)
    assert [delivery.get(0).offset for delivery in deliveries] == list(range(200))


def test_flush_and_get_tell_when_time_is_up() -> None:
    producer = Producer(bootstrap_servers=NOWHERE)
    delivery = producer.send("t", "x")
    with pytest.raises(TimeoutError, match="may still be delivered"):
        delivery.get(0.01)
    with pytest.raises(TimeoutError, match="1 records"):
        producer.flush(0.01)
    producer.close(timeout_s=0)
    assert delivery.exception(WAIT_S).code == "_PURGE_QUEUE"  # type: ignore[union-attr]


def test_a_closed_producer_takes_nothing(mock_cluster: MockCluster) -> None:
    producer = Producer(bootstrap_servers=mock_cluster.bootstrap_servers)
    producer.close()
    producer.close()
    with pytest.raises(ClosedError, match="open another"):
        producer.send("t", "x")


def test_a_callback_may_close_but_not_flush(mock_cluster: MockCluster) -> None:
    producer = Producer(bootstrap_servers=mock_cluster.bootstrap_servers)
    refused: list[str] = []

    def on_delivery(*_: object) -> None:
        try:
            producer.flush()
        except ClientError as error:
            refused.append(str(error))
        producer.close()

    producer.send(mock_cluster.topic(), "x", on_delivery=on_delivery).get(WAIT_S)
    producer.close()
    assert "would wait for itself" in refused[0]


def test_no_thread_outlives_close(mock_cluster: MockCluster) -> None:
    before = set(threading.enumerate())
    with Producer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer:
        producer.send(mock_cluster.topic(), "x", acks=1)
    assert set(threading.enumerate()) <= before


def test_a_forgotten_producer_still_sends(mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic()
    producer = Producer(bootstrap_servers=mock_cluster.bootstrap_servers, linger_ms=500)
    delivery = producer.send(topic, "x")
    del producer
    gc.collect()
    assert delivery.done()


def test_interrupt_ends_a_wait() -> None:
    producer = Producer(bootstrap_servers=NOWHERE)
    producer.send("t", "x")
    interrupt = threading.Timer(0.05, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        producer.flush(WAIT_S)
    producer.close(timeout_s=0)


def test_round_robin_for_one_call(producer: Producer, mock_cluster: MockCluster) -> None:
    topic, turn = mock_cluster.topic(partitions=3), RoundRobin()
    assert [producer.send(topic, "x", "k", partition=turn).get(WAIT_S).partition for _ in range(3)] == [0, 1, 2]
