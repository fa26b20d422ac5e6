"""The code examples of seeds 000, 003 and 004, as written, in Python, on librdkafka's mock cluster.

What differs from the seeds: Java's method calls are attributes and snake_case names, and `send_offsets_to_transaction`
belongs to the producer everywhere (one line of seed 000 gives it to the consumer, which has no transaction).
The admin examples need a broker that creates topics: tests/conformance/test_sdk_admin.py.
"""

import itertools
from collections.abc import Iterator
from datetime import timedelta

import pytest

from ottla import HASH, Consumer, ConsumerRecords, Producer, ProducerRecord, TopicPartition
from ottla.client.murmur2 import partition_of_key

from .conftest import MockCluster

WAIT_S = 20.0
GROUP_IDS = (f"service-{number}" for number in itertools.count())
NAMES = (f"unique-id-{number}" for number in itertools.count())


@pytest.fixture
def producer(mock_cluster: MockCluster) -> Iterator[Producer]:
    with Producer(bootstrap_servers=mock_cluster.bootstrap_servers) as opened:
        yield opened


@pytest.fixture
def group_id() -> str:
    return next(GROUP_IDS)


@pytest.fixture
def consumer(mock_cluster: MockCluster, group_id: str) -> Iterator[Consumer]:
    with Consumer(
        bootstrap_servers=mock_cluster.bootstrap_servers, group_id=group_id, auto_offset_reset="earliest"
    ) as opened:
        yield opened


@pytest.fixture
def transactional_producer(mock_cluster: MockCluster) -> Iterator[Producer]:
    config = {
        "bootstrap.servers": mock_cluster.bootstrap_servers,
        "enable.idempotence": True,
        "transactional.id": next(NAMES),
    }
    with Producer(config) as opened:
        yield opened


def test_seed_000_api_design(producer: Producer, consumer: Consumer, mock_cluster: MockCluster) -> None:
    orders, payments = mock_cluster.topic(partitions=3), mock_cluster.topic()
    producer.produce(topic=orders, key="user_123", value="{...}", partition=HASH)
    producer.flush(WAIT_S)

    consumer.subscribe(topics=[orders, payments])
    records = consumer.poll(timeout_ms=20_000)
    (record,) = records
    assert (record.key, record.partition) == (b"user_123", partition_of_key(b"user_123", 3))
    offsets = records.next_offsets()
    consumer.commit(offsets)
    assert consumer.committed(record.topic_partition)[record.topic_partition].offset == 1  # type: ignore[union-attr]


def test_seed_000_acks(producer: Producer, mock_cluster: MockCluster) -> None:
    """The third of these, with min_insync_replicas, needs a broker that tells configurations (test_sdk.py)."""
    topic, value = mock_cluster.topic(), "value"
    fire_and_forget = producer.send(topic, value, acks=0)
    default = producer.send(topic, value, acks=1)
    assert fire_and_forget.get(WAIT_S).offset == -1
    assert default.get(WAIT_S).offset >= 0


def test_seed_000_partition_strategy(mock_cluster: MockCluster) -> None:
    round_robin_counter = 0

    def select_partition(topic: str, key: bytes | None, value: bytes | None, num_partitions: int) -> int:
        nonlocal round_robin_counter
        if key is not None:
            return hash(key) % num_partitions
        round_robin_counter += 1
        return round_robin_counter % num_partitions

    topic = mock_cluster.topic(partitions=4)
    with Producer(bootstrap_servers=mock_cluster.bootstrap_servers, partitioner=select_partition) as producer:
        keyed = [producer.send(topic, "x", "user_123") for _ in range(8)]
        keyless = [producer.send(topic, "x") for _ in range(8)]
        assert {delivery.get(WAIT_S).partition for delivery in keyed} == {hash(b"user_123") % 4}
        assert {delivery.get(WAIT_S).partition for delivery in keyless} == {0, 1, 2, 3}


def test_seed_000_batching(producer: Producer, consumer: Consumer, mock_cluster: MockCluster) -> None:
    producer_config = {
        "batch.size": 16384,  # Batch up to 16 KB before sending
        "linger.ms": 5,  # Wait up to 5ms to fill batch
        "compression.type": "lz4",  # Compress batch (2–4x size reduction)
    }
    topic = mock_cluster.topic()
    with Producer({"bootstrap.servers": mock_cluster.bootstrap_servers, **producer_config}) as producer:
        for number in range(1_200):
            producer.send(topic, str(number))
    processed: list[int] = []

    def process_batch(records: ConsumerRecords) -> None:
        assert len(records) <= 500
        processed.extend(int(record.value) for record in records)

    consumer.subscribe([topic])
    while len(processed) < 1_200:
        records = consumer.poll(max_records=500, timeout_ms=100)
        process_batch(records)
        consumer.commit()  # Commit entire batch's offsets at once
    assert processed == list(range(1_200))


def test_seed_000_exactly_once(
    producer: Producer, consumer: Consumer, transactional_producer: Producer, mock_cluster: MockCluster, group_id: str
) -> None:
    input_topic, output_topic = mock_cluster.topic(), mock_cluster.topic()
    producer.send(input_topic, "input").get(WAIT_S)
    consumer.subscribe([input_topic])
    offsets = consumer.poll(20_000).next_offsets()
    producer = transactional_producer

    producer.begin_transaction()
    result = producer.send(output_topic, "result")
    producer.send_offsets_to_transaction(offsets, group_id)
    producer.commit_transaction()  # Atomic: output + offset committed together
    assert result.get(0).offset == 0


def test_seed_003_producer(producer: Producer, mock_cluster: MockCluster) -> None:
    failures = []
    record = ProducerRecord(mock_cluster.topic(), "order_1", '{"amount": 100}')
    meta = producer.send(record).get()  # blocks until ack
    assert (meta.partition, meta.offset) == (0, 0)

    def on_completion(metadata: object, exception: Exception | None) -> None:
        if exception is not None:
            failures.append(exception)  # Retry logic or dead-letter handling

    producer.send(record, on_completion)
    producer.flush(WAIT_S)
    mock_cluster.fail_next(0, 87)
    producer.send(record, on_completion)
    producer.flush(WAIT_S)
    assert len(failures) == 1


def test_seed_003_transactional_send(
    transactional_producer: Producer, mock_cluster: MockCluster, group_id: str
) -> None:
    producer, key = transactional_producer, "order_1"
    orders, inventory, source = (mock_cluster.topic() for _ in range(3))
    offsets = {TopicPartition(source, 0): 1}
    producer.begin_transaction()
    sent = [producer.send(ProducerRecord(orders, key, "o")), producer.send(ProducerRecord(inventory, key, "i"))]
    producer.send_offsets_to_transaction(offsets, group_id)  # atomic with consume
    producer.commit_transaction()
    assert [delivery.get(0).topic for delivery in sent] == [orders, inventory]


def test_seed_003_consumer(producer: Producer, consumer: Consumer, mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic()
    for number in range(10):
        producer.send(topic, str(number), str(number))
    producer.flush(WAIT_S)
    processed: list[tuple[bytes, bytes, int]] = []

    def process_order(key: bytes, value: bytes, offset: int) -> None:
        processed.append((key, value, offset))

    consumer.subscribe([topic])  # subscribe by topic name
    while len(processed) < 10:
        records = consumer.poll(timedelta(milliseconds=100))
        for record in records:
            process_order(record.key, record.value, record.offset)
        consumer.commit_sync()  # commit after successful processing
    assert processed == [(b"%d" % number, b"%d" % number, number) for number in range(10)]


def test_seed_003_replay(producer: Producer, mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic()
    for number in range(10):
        producer.send(topic, str(number))
    producer.flush(WAIT_S)
    with Consumer(bootstrap_servers=mock_cluster.bootstrap_servers) as consumer:
        consumer.assign([TopicPartition(topic, 0)])  # manual partition
        consumer.seek(TopicPartition(topic, 0), 5)  # replay from a point
        assert consumer.poll(20_000)[0].offset == 5


def test_seed_004_transaction(
    producer: Producer, consumer: Consumer, transactional_producer: Producer, mock_cluster: MockCluster
) -> None:
    orders, inventory, source = (mock_cluster.topic() for _ in range(3))
    producer.send(source, "input").get(WAIT_S)
    consumer.subscribe([source])
    consumer_offsets = consumer.poll(20_000).next_offsets()
    producer = transactional_producer

    producer.begin_transaction()
    producer.send(topic=orders, key="order_1", value="...")
    producer.send(topic=inventory, key="item_42", value="...")
    producer.send_offsets_to_transaction(consumer_offsets)  # for consume-transform-produce
    producer.commit_transaction()
    with Consumer(
        bootstrap_servers=mock_cluster.bootstrap_servers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as reader:
        reader.assign([TopicPartition(orders, 0)])
        assert reader.poll(20_000)[0].key == b"order_1"
