"""Ottla's own SDK against a real broker: scenes 13 to 16, reading, and asyncio."""

import asyncio
import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ottla
from ottla.client import (
    AsyncConsumer,
    AsyncProducer,
    ClientError,
    ConfigError,
    Consumer,
    ConsumerRecord,
    FallThrough,
    Partitioner,
    Producer,
    RoundRobin,
    Salting,
    Sticky,
    TopicPartition,
)
from ottla.client.murmur2 import partition_of_key
from tests.conformance.client import Client, Record
from tests.conformance.conftest import BrokerUnderTest, Keeper
from tests.conformance.proxy import lossy_proxy
from tests.conformance.segments import batches_on_disk

PARTITIONS = 12
HOT = b"celebrity"
WAIT_S = 30.0
WAIT_MS = WAIT_S * 1_000
MAX_MESSAGE_BYTES = 1_048_588  # max.message.bytes
BATCH_AND_RECORD_OVERHEAD_BYTES = 61 + 11  # of one record of that size, without key and headers


@pytest.fixture
def producer(broker: BrokerUnderTest) -> Iterator[Producer]:
    with Producer(bootstrap_servers=broker.bootstrap) as opened:
        yield opened


@pytest.fixture
def consumer(broker: BrokerUnderTest) -> Iterator[Consumer]:
    with Consumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as opened:
        yield opened


def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    while len(records) < count:
        polled = consumer.poll(WAIT_MS)
        assert polled, f"{len(records)} of {count} records"
        records.extend(polled)
    return records


def test_scene_13_one_key_one_partition_as_in_java(
    producer: Producer, borrow: Callable[[str], Client], keeper: Keeper, topic_name: str
) -> None:
    keys = [b"user_%d" % number for number in range(50)]
    keeper.create(topic_name, partitions=PARTITIONS)
    by_java = borrow("java").produce(topic_name, [Record(key=key, value=b"v", partition=None) for key in keys])
    by_sdk = [producer.send(topic_name, "v", key) for key in keys]
    by_sdk_in_python = [producer.send(topic_name, "v", key, partition=ottla.HASH) for key in keys]
    expected = [stored.partition for stored in by_java]
    assert [delivery.get(WAIT_S).partition for delivery in by_sdk] == expected
    assert [delivery.get(WAIT_S).partition for delivery in by_sdk_in_python] == expected


def test_scene_13_one_key_keeps_its_order(
    producer: Producer, consumer: Consumer, keeper: Keeper, topic_name: str
) -> None:
    keeper.create(topic_name, partitions=PARTITIONS)
    for number in range(500):
        producer.send(topic_name, str(number), f"user_{number % 5}")
    producer.flush(WAIT_S)
    consumer.assign(consumer.partitions_for(topic_name))
    records = read(consumer, 500)
    for user in range(5):
        mine = [record for record in records if record.key == b"user_%d" % user]
        assert {record.partition for record in mine} == {partition_of_key(b"user_%d" % user, PARTITIONS)}
        assert [int(record.value) for record in mine] == list(range(user, 500, 5))


def spread(broker: BrokerUnderTest, topic: str, partitioner: Partitioner, keys: list[bytes]) -> list[int]:
    with Producer(bootstrap_servers=broker.bootstrap, partitioner=partitioner) as producer:
        deliveries = [producer.send(topic, b"x" * 100, key) for key in keys]
        return [delivery.get(WAIT_S).partition for delivery in deliveries]


def hot_key_traffic() -> list[bytes]:
    chance = random.Random(14)
    return [HOT if chance.random() < 0.9 else b"user-%d" % chance.randrange(500) for _ in range(3_000)]


def test_scene_14_partitioners_and_a_hot_key(broker: BrokerUnderTest, keeper: Keeper, topic_name: str) -> None:
    keeper.create(topic_name, partitions=PARTITIONS)
    keys = hot_key_traffic()
    home = partition_of_key(HOT, PARTITIONS)

    by_key = spread(broker, topic_name, ottla.HASH, keys)
    assert Counter(by_key)[home] > 2_500

    in_turn = Counter(spread(broker, topic_name, RoundRobin(), keys))
    assert set(in_turn.values()) == {250}

    salted = spread(broker, topic_name, Salting([HOT]), keys)
    assert len({partition for key, partition in zip(keys, salted, strict=True) if key == HOT}) == 5
    assert Counter(salted).most_common(1)[0][1] < 1_000

    fallen = spread(broker, topic_name, FallThrough(threshold=300, window_s=3_600), keys)
    hot = [partition for key, partition in zip(keys, fallen, strict=True) if key == HOT]
    assert set(hot[:300]) == {home}
    assert set(hot[300:]) == set(range(PARTITIONS))

    sticky = spread(broker, topic_name, Sticky(batch_bytes=2_000), keys)
    changes = sum(before != after for before, after in itertools.pairwise(sticky))
    assert changes < len(keys) / 10
    assert set(sticky) == set(range(PARTITIONS))


def test_scene_15_a_thousand_messages_in_about_ten_requests(broker: BrokerUnderTest, topic: str) -> None:
    config = {"batch.size": 16384, "linger.ms": 500}  # a linger that only a noisy machine needs
    with (
        lossy_proxy(broker.port, loses=lambda _: False) as proxy,
        Producer({"bootstrap.servers": proxy.bootstrap, **config}) as producer,
    ):
        producer.send(topic, "warm").get(WAIT_S)
        before = proxy.produce_requests
        for _ in range(1_000):
            producer.send(topic, b"x" * 150)
        producer.flush(WAIT_S)
        assert 8 <= proxy.produce_requests - before <= 15


def order_event(number: int, chance: random.Random) -> bytes:
    """What the seeds' order topics carry: JSON with the same field names each time and values that differ."""
    event = {
        "order_id": f"order_{number}",
        "user_id": f"user_{chance.randrange(100_000)}",
        "status": chance.choice(["created", "paid", "shipped", "delivered", "cancelled"]),
        "amount": round(chance.uniform(1, 500), 2),
        "currency": chance.choice(["EUR", "USD", "CZK"]),
        "items": [{"sku": f"item_{chance.randrange(1_000)}", "quantity": chance.randrange(1, 9)} for _ in range(3)],
        "created_at_ms": 1_700_000_000_000 + 137 * number,
    }
    return json.dumps(event).encode()


@pytest.mark.needs_directory
def test_scene_15_lz4_makes_text_two_to_four_times_smaller(broker: BrokerUnderTest, data_dir: Path, topic: str) -> None:
    chance = random.Random(15)
    orders = [order_event(number, chance) for number in range(2_000)]
    with Producer(bootstrap_servers=broker.bootstrap, compression_type="lz4", linger_ms=200) as producer:
        for order in orders:
            producer.send(topic, order)
    batches = batches_on_disk(data_dir, topic)
    assert {batch.codec for batch in batches} == {"lz4"}
    assert 2.0 <= sum(map(len, orders)) / sum(batch.size_bytes for batch in batches) <= 4.0


def test_scene_16_one_megabyte_passes(producer: Producer, consumer: Consumer, topic: str) -> None:
    value = random.Random(16).randbytes(1_000_000)
    assert producer.send(topic, value).get(WAIT_S).offset == 0
    consumer.assign(TopicPartition(topic, 0))
    assert read(consumer, 1)[0].value == value


def test_scene_16_one_byte_over_the_limit_is_refused(broker: BrokerUnderTest, topic: str) -> None:
    largest = MAX_MESSAGE_BYTES - BATCH_AND_RECORD_OVERHEAD_BYTES
    with Producer(bootstrap_servers=broker.bootstrap, max_request_size=2_000_000) as producer:
        assert producer.send(topic, bytes(largest)).get(WAIT_S).offset == 0
        with pytest.raises(ClientError, match=r"MESSAGE_TOO_LARGE.*max.message.bytes"):
            producer.send(topic, bytes(largest + 1)).get(WAIT_S)


def test_acks_per_call(producer: Producer, consumer: Consumer, topic: str) -> None:
    assert producer.send(topic, "a", acks=0).get(WAIT_S).offset == -1
    consumer.assign(TopicPartition(topic, 0))
    assert read(consumer, 1)[0].value == b"a"
    assert producer.send(topic, "b", acks=1).get(WAIT_S).offset == 1
    assert producer.send(topic, "c", acks="all").get(WAIT_S).offset == 2


def test_min_insync_replicas_is_the_topics_to_promise(producer: Producer, keeper: Keeper, topic: str) -> None:
    with pytest.raises(ConfigError, match=rf"{topic} has 1 replicas, 2 in sync were asked for"):
        producer.send(topic, "x", acks="all", min_insync_replicas=2)
    assert producer.send(topic, "x", acks="all", min_insync_replicas=1).get(WAIT_S).offset == 0


def test_seek_to_an_offset_and_to_a_timestamp(producer: Producer, consumer: Consumer, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    for number in range(100):
        producer.send(topic, str(number), timestamp_ms=1_700_000_000_000 + 1_000 * number)
    producer.flush(WAIT_S)
    consumer.assign(partition)
    consumer.seek(partition, 50)
    assert consumer.poll(WAIT_MS, max_records=1)[0].offset == 50
    found = consumer.offsets_for_times({partition: 1_700_000_000_000 + 1_000 * 30 - 1})
    assert found == {partition: 30}
    consumer.seek(partition, found[partition] or 0)
    assert consumer.poll(WAIT_MS, max_records=1)[0].value == b"30"
    assert consumer.offsets_for_times({partition: 1_800_000_000_000}) == {partition: None}
    assert consumer.beginning_offsets(partition) == {partition: 0}
    assert consumer.end_offsets(partition) == {partition: 100}


def test_a_topic_that_is_not_there_is_told(broker: BrokerUnderTest, topic_name: str) -> None:
    with (
        Consumer(bootstrap_servers=broker.bootstrap, allow_auto_create_topics=False) as consumer,
        pytest.raises(ClientError, match=r"UNKNOWN_TOPIC.*Create the topic first"),
    ):
        consumer.partitions_for(topic_name)


def test_asyncio_there_and_back(broker: BrokerUnderTest, topic: str) -> None:
    async def scene() -> None:
        async with AsyncProducer(bootstrap_servers=broker.bootstrap) as producer:
            sent = [await producer.send(topic, str(number), headers={"n": "1"}) for number in range(1_000)]
            assert [(await one).offset for one in sent] == list(range(1_000))
        async with AsyncConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as consumer:
            await consumer.assign(await consumer.partitions_for(topic))
            values = []
            async for record in consumer:
                values.append(int(record.value))
                if len(values) == 1_000:
                    break
            assert values == list(range(1_000))

    asyncio.run(scene())
