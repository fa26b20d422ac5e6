"""Spark's official connector reads and writes Ottla, batch and streaming, and `format("ottla")` in its place does the
same: every test runs with both."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.client import Producer
from ottla.testing import Broker
from tests.conformance_spark.conftest import SparkSessionProcess

NewTopic = Callable[[int], str]
T0_MS = 1_700_000_000_000

pytestmark = pytest.mark.parametrize("connector", ["kafka", "ottla"])


def fill(broker: Broker, topic: str, count: int, *, partitions: int = 2, **options: str) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers, **options) as producer:
        for number in range(count):
            producer.send(
                topic,
                key=f"k{number}",
                value=f"v{number}",
                partition=number % partitions,
                timestamp_ms=T0_MS + number * 1000,
                headers=[("h", str(number).encode())],
            )


def options(broker: Broker, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": broker.bootstrap_servers, **more}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_batch_read(
    session: SparkSessionProcess, broker: Broker, new_topic: NewTopic, connector: str, codec: str
) -> None:
    topic = new_topic(2)
    fill(broker, topic, 6, compression_type=codec)
    found = session.call("read", connector=connector, options=options(broker, subscribe=topic, includeHeaders="true"))
    assert found["columns"] == [
        ["key", "binary"],
        ["value", "binary"],
        ["topic", "string"],
        ["partition", "int"],
        ["offset", "bigint"],
        ["timestamp", "timestamp"],
        ["timestampType", "int"],
        ["headers", "array<struct<key:string,value:binary>>"],
    ]
    assert [(row["partition"], row["offset"]) for row in found["rows"]] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 0),
        (1, 1),
        (1, 2),
    ]
    assert found["rows"][4] == {
        "key": "azM=",
        "value": "djM=",
        "topic": topic,
        "partition": 1,
        "offset": 1,
        "timestamp": "2023-11-14 22:13:23",
        "timestampType": 0,
        "headers": [{"key": "h", "value": "Mw=="}],
    }


@pytest.mark.parametrize(
    ("bounds", "offsets"),
    [
        (
            {"startingOffsets": '{"TOPIC": {"0": 2, "1": -2}}', "endingOffsets": '{"TOPIC": {"0": -1, "1": 1}}'},
            [2, 3, 4, 0],
        ),
        ({"startingTimestamp": str(T0_MS + 7000)}, [4, 3, 4]),
        ({"startingOffsetsByTimestamp": f'{{"TOPIC": {{"0": {T0_MS + 8000}, "1": {T0_MS}}}}}'}, [4, 0, 1, 2, 3, 4]),
        ({"endingTimestamp": str(T0_MS + 2000)}, [0, 0]),
        ({"minPartitions": "7", "endingOffsets": "latest"}, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]),
    ],
)
def test_bounds_of_a_batch_read(
    session: SparkSessionProcess,
    broker: Broker,
    new_topic: NewTopic,
    connector: str,
    bounds: dict[str, str],
    offsets: list[int],
) -> None:
    topic = new_topic(2)
    fill(broker, topic, 10)
    bounds = {name: text.replace("TOPIC", topic) for name, text in bounds.items()}
    found = session.call("read", connector=connector, options=options(broker, subscribe=topic, **bounds))
    assert [row["offset"] for row in found["rows"]] == offsets


def test_topics_by_pattern_and_partitions_by_assignment(
    session: SparkSessionProcess, broker: Broker, new_topic: NewTopic, connector: str
) -> None:
    topic = new_topic(2)
    fill(broker, topic, 4)
    for subscription in ({"subscribePattern": f"{topic[:-1]}[{topic[-1]}]"}, {"assign": f'{{"{topic}": [0, 1]}}'}):
        found = session.call("read", connector=connector, options=options(broker, **subscription))
        assert len(found["rows"]) == 4


def test_committed_records_alone(
    session: SparkSessionProcess, broker: Broker, new_topic: NewTopic, connector: str
) -> None:
    topic = new_topic(1)
    with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id=topic) as producer:
        producer.init_transactions()
        for value in ("committed", "aborted", "committed too"):
            producer.begin_transaction()
            producer.send(topic, value=value, partition=0)
            producer.flush()
            producer.abort_transaction() if value == "aborted" else producer.commit_transaction()
    committed = options(broker, subscribe=topic, **{"kafka.isolation.level": "read_committed"})
    assert [row["offset"] for row in session.call("read", connector=connector, options=committed)["rows"]] == [0, 4]


def test_a_batch_write(session: SparkSessionProcess, broker: Broker, new_topic: NewTopic, connector: str) -> None:
    topic, other = new_topic(3), new_topic(1)
    rows = [
        {"key": f"k{n}", "value": f"v{n}", "topic": other if n % 5 == 0 else topic, "header": str(n)} for n in range(20)
    ]
    session.call("write", connector=connector, rows=rows, options=options(broker))
    subscription = options(broker, subscribe=f"{topic},{other}", includeHeaders="true")
    found = session.call("read", connector=connector, options=subscription)["rows"]
    assert len(found) == 20
    assert sum(row["topic"] == other for row in found) == 4
    assert all(row["headers"][0]["key"] == "h" for row in found)


def test_keys_go_to_the_same_partitions_whoever_writes(
    session: SparkSessionProcess, broker: Broker, new_topic: NewTopic, connector: str
) -> None:
    topic = new_topic(5)
    rows = [{"key": f"key-{n}", "value": "v", "topic": topic, "header": ""} for n in range(50)]
    for writer in ("kafka", connector):
        session.call("write", connector=writer, rows=rows, options=options(broker))
    found = session.call("read", connector="kafka", options=options(broker, subscribe=topic))["rows"]
    assert len({(row["key"], row["partition"]) for row in found}) == 50


def test_a_stream_from_topic_to_topic_goes_on_where_it_ended(
    session: SparkSessionProcess, broker: Broker, new_topic: NewTopic, connector: str, tmp_path: Path
) -> None:
    topic, target = new_topic(2), new_topic(2)
    source = options(broker, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="8")
    arguments = {"options": source, "target": options(broker, topic=target), "checkpoint": str(tmp_path)}
    fill(broker, topic, 20)
    assert session.call("stream_copy", connector=connector, **arguments) == [8, 8, 4]
    fill(broker, topic, 4)
    assert session.call("stream_copy", connector=connector, **arguments) == [4]
    copied = session.call("read", connector="kafka", options=options(broker, subscribe=target))["rows"]
    assert len(copied) == 24


def test_a_stream_to_files(
    session: SparkSessionProcess, broker: Broker, new_topic: NewTopic, connector: str, tmp_path: Path
) -> None:
    topic = new_topic(2)
    source = options(broker, subscribe=topic, startingOffsets="earliest")
    for _ in range(2):
        fill(broker, topic, 3)
        counted = session.call("stream_count", connector=connector, options=source, directory=str(tmp_path))
    assert counted == [["v0", 2], ["v1", 2], ["v2", 2]]
