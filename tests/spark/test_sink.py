"""Topics as a sink: `format("ottla")` in batch and streaming queries, and what arrives of them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from ottla.base.types import TopicPartition
from ottla.client import Consumer
from ottla.client.murmur2 import partition_of_key
from tests.spark.brokers import AnyBroker
from tests.spark.source_topics import T0_MS, create, filled, reader, stream, values
from tests.spark.visibility import wait_visible


def written(frame: Any, broker: AnyBroker, topic: str | None, **options: object) -> None:
    writing = frame.write.format("ottla").mode("append").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    for name, value in {"topic": topic, **options}.items():
        if value is not None:
            writing = writing.option(name.replace("_", "."), value)
    writing.save()


def test_every_column_arrives(spark: Any, broker: AnyBroker) -> None:
    create(broker, "sink-columns", 3)
    at = datetime.fromtimestamp(T0_MS / 1000, UTC)
    rows = [
        ("sink-columns", "k1", b"v1", 2, at, [("h", b"1"), ("none", None)]),
        ("sink-columns", None, b"v2", 1, None, None),
        ("sink-columns", "k3", None, None, at, []),
    ]
    schema = (
        "topic string, key string, value binary, partition int, timestamp timestamp, "
        "headers array<struct<key: string, value: binary>>"
    )
    written(spark.createDataFrame(rows, schema), broker, None)
    found = {row["key"]: row for row in reader(spark, broker, "sink-columns", includeHeaders="true").collect()}
    first, second, third = found[b"k1"], found[None], found[b"k3"]
    assert (first["value"], first["partition"]) == (b"v1", 2)
    assert first["timestamp"] == at.replace(tzinfo=None)
    assert [(one["key"], one["value"]) for one in first["headers"]] == [("h", b"1"), ("none", None)]
    assert (second["value"], second["partition"]) == (b"v2", 1)
    assert second["timestamp"] > datetime(2026, 1, 1)
    assert (third["value"], third["partition"]) == (None, partition_of_key(b"k3", 3))


def test_every_codec_is_read_by_other_clients(spark: Any, broker: AnyBroker) -> None:
    """And every key is in the partition where they would have put it (scene 13)."""
    topics = {f"sink-{codec}": codec for codec in ("none", "gzip", "snappy", "lz4", "zstd")}
    frame = spark.range(500).selectExpr("cast(id as string) key", "repeat(cast(id as string), 20) value").cache()
    for topic, codec in topics.items():
        create(broker, topic, 2)
        written(frame, broker, topic, kafka_compression_type=codec)
    found: dict[tuple[str, bytes | None], int] = {}
    with Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        consumer.assign([TopicPartition(topic, index) for topic in topics for index in range(2)])
        consumer.seek_to_beginning()
        while len(found) < 500 * len(topics):
            for record in consumer.poll():
                assert record.value == (record.key or b"") * 20
                found[record.topic, record.key] = record.partition
    assert found == {(topic, key): partition_of_key(key or b"", 2) for topic, key in found}


def test_rows_go_to_the_topics_they_name_unless_the_option_names_one(spark: Any, broker: AnyBroker) -> None:
    for topic in ("sink-a", "sink-b", "sink-c"):
        create(broker, topic)
    frame = spark.createDataFrame([("sink-a", "1"), ("sink-b", "2"), ("sink-a", "3")], "topic string, value string")
    written(frame, broker, None)
    written(frame, broker, "sink-c")
    assert [values(reader(spark, broker, topic)) for topic in ("sink-a", "sink-b", "sink-c")] == [
        ["1", "3"],
        ["2"],
        ["1", "2", "3"],
    ]


@pytest.mark.parametrize("guarantee", ["atLeastOnce", "exactlyOnce"])
def test_a_stream_from_topic_to_topic(spark: Any, broker: AnyBroker, checkpoint: str, guarantee: str) -> None:
    """In micro-batches, twice: the second run goes on where the first ended."""
    source, target = f"sink-source-{guarantee}", f"sink-target-{guarantee}"
    create(broker, target, 2)

    def run() -> None:
        frame = stream(spark, broker, source, startingOffsets="earliest", maxOffsetsPerTrigger=8).select("key", "value")
        writing = frame.writeStream.format("ottla").option("kafka.bootstrap.servers", broker.bootstrap_servers)
        writing = writing.option("topic", target).option("guarantee", guarantee)
        query = writing.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()

    filled(broker, source, 20)
    run()
    wait_visible(broker, target)
    assert values(reader(spark, broker, target)) == sorted(f"v{number}" for number in range(20))
    filled(broker, source, 4)
    run()
    wait_visible(broker, target)
    assert len(values(reader(spark, broker, target))) == 24
    by_key = {row["key"]: row["partition"] for row in reader(spark, broker, target).collect()}
    assert by_key == {key: partition_of_key(key, 2) for key in by_key}


def test_what_cannot_be_written_is_told(spark: Any, broker: AnyBroker) -> None:
    create(broker, "sink-wrong", 2)
    frame = spark.createDataFrame([("1", 7)], "value string, partition int")
    with pytest.raises(Exception, match="names partition 7: the topic has 0 to 1"):
        written(frame, broker, "sink-wrong")
    with pytest.raises(Exception, match="a column value is needed"):
        written(spark.range(1), broker, "sink-wrong")
    with pytest.raises(Exception, match="where to"):
        written(frame, broker, None)
    with pytest.raises(Exception, match="unknown options: topics"):
        written(frame, broker, None, topics="sink-wrong")
    assert values(reader(spark, broker, "sink-wrong")) == []
