"""Micro-batches and tasks as they are planned on the driver, measured against the log itself. No Spark runs here."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes
from pyspark.sql.types import StructType

import ottla.testing
from ottla.base.types import TopicPartition
from ottla.client import Producer
from ottla.spark.batch_reader import OttlaReader, RangePartition
from ottla.spark.source_options import SourceOptions
from ottla.spark.stream_position import StreamPosition
from ottla.spark.stream_reader import OttlaStreamReader
from tests.spark.brokers import AnyBroker
from tests.spark.log_bytes import BatchSpan, batch_spans, bytes_between
from tests.spark.source_topics import committed, create, sent
from tests.spark.waiting import until

SOFT = 0.25
LIMIT_BYTES = 400_000
TASK_BYTES = 150_000
RECORDS = 6_000
KINDS = ["skewed", "growing", "burst", "compressed"]

Spans = dict[TopicPartition, list[BatchSpan]]


@pytest.fixture(scope="module")
def logs(broker: AnyBroker) -> dict[str, Spans]:
    """Topics of two partitions whose averages mislead."""
    for kind in KINDS:
        create(broker, kind, 2)
        fill(broker, kind)
    return {
        kind: {TopicPartition(kind, index): batch_spans(broker, TopicPartition(kind, index)) for index in range(2)}
        for kind in KINDS
    }


def fill(broker: AnyBroker, kind: str) -> None:
    chance = random.Random(kind)
    codec = "zstd" if kind == "compressed" else "none"
    with Producer(bootstrap_servers=broker.bootstrap_servers, compression_type=codec, batch_size=20_000) as producer:
        for number in range(RECORDS):
            match kind:
                case "skewed":  # Nine in ten go to one partition, and those of the other are large.
                    partition, value = (1, b"x" * 5_000) if number % 10 == 0 else (0, b"x" * 200)
                case "growing":
                    partition, value = number % 2, b"x" * (number // 2)
                case "burst":  # Few large ones among small ones, between the places that are looked at first.
                    partition, value = number % 2, b"x" * (20_000 if 4_700 <= number < 4_800 else 200)
                case _:  # The second half does not let itself be compressed.
                    partition = number % 2
                    value = b"x" * 1_000 if number < RECORDS // 2 else chance.randbytes(1_000)
            producer.send(kind, value=value, partition=partition)


def options(broker: AnyBroker, topic: str, **more: str) -> SourceOptions:
    least = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic, "startingOffsets": "earliest"}
    return SourceOptions.parse({**least, **more})


@contextmanager
def stream_reader(settings: SourceOptions) -> Iterator[OttlaStreamReader]:
    reader = OttlaStreamReader(settings, StructType())
    try:
        yield reader
    finally:
        reader.stop()


def position(layout: dict[str, Any]) -> dict[TopicPartition, int]:
    return dict(StreamPosition.from_json(layout).offsets)


def outside(sizes: list[float], wanted: float) -> list[float]:
    return [size for size in sizes if not wanted * (1 - SOFT) <= size <= wanted * (1 + SOFT)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_micro_batch_holds_the_bytes_asked_for(broker: AnyBroker, logs: dict[str, Spans], kind: str) -> None:
    sizes = []
    with stream_reader(options(broker, kind, maxBytesPerTrigger=str(LIMIT_BYTES))) as reader:
        start = reader.initialOffset()
        while (end := reader.latestOffset(start, ReadMaxBytes(LIMIT_BYTES))) != start:
            low, high = position(start), position(end)
            sizes.append(sum(bytes_between(logs[kind][one], low[one], high[one]) for one in high))
            start = end
    assert len(sizes) > 3
    assert outside(sizes[:-1], LIMIT_BYTES) == []


@pytest.mark.parametrize("kind", KINDS)
def test_tasks_hold_about_the_same_bytes(broker: AnyBroker, logs: dict[str, Spans], kind: str) -> None:
    reader = OttlaReader(options(broker, kind, maxBytesPerTask=str(TASK_BYTES)), StructType())
    sizes: dict[TopicPartition, list[float]] = {}
    for task in reader.partitions():
        assert isinstance(task, RangePartition)
        one = task.wanted
        sizes.setdefault(one.partition, []).append(bytes_between(logs[kind][one.partition], one.start, one.end))
    assert sum(map(len, sizes.values())) > 8
    for of_partition in sizes.values():
        mean = sum(of_partition) / len(of_partition)
        assert mean <= TASK_BYTES * (1 + SOFT)
        assert outside(of_partition, mean) == []


def test_a_group_that_read_past_an_open_transaction_lost_nothing(broker: AnyBroker) -> None:
    create(broker, "open")
    sent(broker, "open", [b"before"])
    partition = TopicPartition("open", 0)
    with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="open") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("open", value=b"read already", partition=0)
        producer.flush()
        committed(broker, "past", {partition: 2})
        with stream_reader(options(broker, "open", startingOffsets="group:past")) as reader:
            start = reader.initialOffset()
            assert position(start) == {partition: 2}
            assert reader.latestOffset(start, ReadAllAvailable()) == start
            producer.commit_transaction()
            end = {partition: 3}  # Behind the marker, which Kafka writes a moment after it answered.
            until(lambda: position(reader.latestOffset(start, ReadAllAvailable())) == end)


def test_a_query_that_keeps_up_does_not_look_into_its_records(broker: AnyBroker) -> None:
    """What is planned without asking for their sizes: one task a partition."""
    create(broker, "short", 3)
    sent(broker, "short", [b"x" * 10_000] * 20)
    with stream_reader(options(broker, "short")) as reader:
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        (task,) = reader.partitions(start, end)
    assert isinstance(task, RangePartition)
    assert (task.wanted.start, task.wanted.end) == (0, 20)


def test_a_broker_that_restarts_is_waited_for() -> None:
    with ottla.testing.broker() as own:
        create(own, "restarted")
        sent(own, "restarted", [b"x"] * 5)
        with stream_reader(options(own, "restarted")) as reader:
            start = reader.initialOffset()
            own.kill()
            restarting = threading.Thread(target=own.restart)
            restarting.start()
            end = reader.latestOffset(start, ReadAllAvailable())
            restarting.join()
    assert position(end) == {TopicPartition("restarted", 0): 5}
