"""Topics as a source: `format("ottla")` in batch and streaming queries, found without a JAR or a registration."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ottla.base.types import TopicPartition
from ottla.client import Admin, Producer
from ottla.testing import Broker

T0_MS = 1_700_000_000_000


def filled(broker: Broker, topic: str, count: int, *, partitions: int = 2, **options: Any) -> None:
    """`count` records, the n-th with key and value n, to partition n % partitions, one second after the other."""
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        if topic not in admin.list_topics():
            admin.create_topic(topic, partitions)
    with Producer(bootstrap_servers=broker.bootstrap_servers, **options) as producer:
        for number in range(count):
            producer.send(
                topic,
                key=f"k{number}".encode(),
                value=f"v{number}".encode(),
                partition=number % partitions,
                timestamp_ms=T0_MS + 1000 * number,
                headers=[("n", str(number).encode())],
            )


def reader(spark: Any, broker: Broker, topic: str, **options: object) -> Any:
    frame = spark.read.format("ottla").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    for name, value in {"subscribe": topic, **options}.items():
        frame = frame.option(name, value)
    return frame.load()


def values(frame: Any) -> list[str]:
    return sorted(row["value"].decode() for row in frame.select("value").collect())


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_batch_query_reads_every_record_with_all_columns(spark: Any, broker: Broker, codec: str) -> None:
    topic = f"batch-{codec}"
    filled(broker, topic, 10, compression_type=codec)
    frame = reader(spark, broker, topic, includeHeaders="true")
    rows = {row["value"].decode(): row for row in frame.collect()}
    assert sorted(rows) == sorted(f"v{number}" for number in range(10))
    row = rows["v5"]
    assert (row["key"], row["topic"], row["partition"], row["offset"]) == (b"k5", topic, 1, 2)
    assert row["timestamp"] == datetime.fromtimestamp(T0_MS / 1000 + 5, UTC).replace(tzinfo=None)
    assert row["timestampType"] == 0
    assert [(one["key"], one["value"]) for one in row["headers"]] == [("n", b"5")]


def test_bounds_by_offset_timestamp_and_group(spark: Any, broker: Broker) -> None:
    filled(broker, "bounds", 10)
    bounds = {
        "startingOffsets": '{"bounds": {"0": 2, "1": -2}}',
        "endingOffsets": '{"bounds": {"0": -1, "1": 1}}',
    }
    some = reader(spark, broker, "bounds", **bounds)
    assert values(some) == ["v1", "v4", "v6", "v8"]
    assert values(reader(spark, broker, "bounds", startingTimestamp=T0_MS + 7000)) == ["v7", "v8", "v9"]
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.alter_group_offsets("sparks", {TopicPartition("bounds", 0): 4})
    from_group = reader(spark, broker, "bounds", startingOffsets="group:sparks")
    assert values(from_group) == ["v1", "v3", "v5", "v7", "v8", "v9"]


def test_chosen_columns_and_more_tasks_than_partitions(spark: Any, broker: Broker) -> None:
    filled(broker, "columns", 40)
    frame = reader(spark, broker, "columns", columns="offset,value", minPartitions=6)
    assert frame.columns == ["offset", "value"]
    assert frame.rdd.getNumPartitions() >= 6
    assert len(values(frame)) == 40


def test_aborted_records_are_not_read(spark: Any, broker: Broker) -> None:
    filled(broker, "transactions", 2, partitions=1)
    with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="spark-test") as producer:
        producer.init_transactions()
        for outcome in ("aborted", "committed"):
            producer.begin_transaction()
            producer.send("transactions", value=outcome.encode(), partition=0)
            producer.flush()
            producer.abort_transaction() if outcome == "aborted" else producer.commit_transaction()
    assert values(reader(spark, broker, "transactions")) == ["committed", "v0", "v1"]
    everything = reader(spark, broker, "transactions", **{"kafka.isolation.level": "read_uncommitted"})
    assert values(everything) == ["aborted", "committed", "v0", "v1"]


def test_lost_records_are_told_unless_they_may_be(spark: Any, broker: Broker) -> None:
    filled(broker, "lost", 10, partitions=1)
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition("lost", 0): 6})
    bounds = {"startingOffsets": '{"lost": {"0": 2}}'}
    with pytest.raises(Exception, match="records that were to be read are gone"):
        values(reader(spark, broker, "lost", **bounds))
    assert values(reader(spark, broker, "lost", failOnDataLoss="false", **bounds)) == ["v6", "v7", "v8", "v9"]


def test_a_stream_goes_on_where_its_checkpoint_ends(
    spark: Any, broker: Broker, checkpoint: str, tmp_path: Path
) -> None:
    """In micro-batches of the size asked for, with its progress to be seen by lag tools in a group."""
    filled(broker, "stream", 20)
    sink = str(tmp_path / "rows")

    def run() -> list[int]:
        frame = spark.readStream.format("ottla").option("kafka.bootstrap.servers", broker.bootstrap_servers)
        frame = frame.option("subscribe", "stream").option("maxOffsetsPerTrigger", 8).option("kafka.group.id", "lag")
        rows = frame.load().selectExpr("cast(value as string) value", "partition", "offset")
        query = rows.writeStream.format("parquet").option("checkpointLocation", checkpoint).option("path", sink)
        done = query.trigger(availableNow=True).start()
        done.awaitTermination(120)
        return [progress["numInputRows"] for progress in done.recentProgress if progress["numInputRows"]]

    assert run() == [8, 8, 4]
    filled(broker, "stream", 4)
    assert run() == [4]
    rows = spark.read.parquet(sink).collect()
    assert len(rows) == len({(row["partition"], row["offset"]) for row in rows}) == 24
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        committed = admin.list_group_offsets("lag")
    assert {partition.partition: found.offset for partition, found in committed.items()} == {0: 12, 1: 12}


def test_a_wrong_option_is_told_at_once(spark: Any, broker: Broker) -> None:
    with pytest.raises(Exception, match="unknown options: maxoffsetpertrigger"):
        reader(spark, broker, "columns", maxOffsetPerTrigger=5).printSchema()
