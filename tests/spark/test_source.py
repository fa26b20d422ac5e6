"""Topics as a source: `format("ottla")` in batch and streaming queries, found without a JAR or a registration."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ottla.base.types import TopicPartition
from ottla.client import Admin, Producer
from tests.spark.brokers import AnyBroker
from tests.spark.source_topics import T0_MS, committed, create, filled, reader, stream, values


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_batch_query_reads_every_record_with_all_columns(spark: Any, broker: AnyBroker, codec: str) -> None:
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


def test_bounds_by_offset_timestamp_and_group(spark: Any, broker: AnyBroker) -> None:
    filled(broker, "bounds", 10)
    bounds = {
        "startingOffsets": '{"bounds": {"0": 2, "1": -2}}',
        "endingOffsets": '{"bounds": {"0": -1, "1": 1}}',
    }
    some = reader(spark, broker, "bounds", **bounds)
    assert values(some) == ["v1", "v4", "v6", "v8"]
    assert values(reader(spark, broker, "bounds", startingTimestamp=T0_MS + 7000)) == ["v7", "v8", "v9"]
    committed(broker, "sparks", {TopicPartition("bounds", 0): 4})
    from_group = reader(spark, broker, "bounds", startingOffsets="group:sparks")
    assert values(from_group) == ["v1", "v3", "v5", "v7", "v8", "v9"]


def test_chosen_columns_and_more_tasks_than_partitions(spark: Any, broker: AnyBroker) -> None:
    filled(broker, "columns", 40)
    frame = reader(spark, broker, "columns", columns="offset,value", minPartitions=6)
    assert frame.columns == ["offset", "value"]
    assert frame.rdd.getNumPartitions() >= 6
    assert len(values(frame)) == 40


def test_aborted_records_are_not_read(spark: Any, broker: AnyBroker) -> None:
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


def test_lost_records_are_told_unless_they_may_be(spark: Any, broker: AnyBroker) -> None:
    filled(broker, "lost", 10, partitions=1)
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition("lost", 0): 6})
    bounds = {"startingOffsets": '{"lost": {"0": 2}}'}
    with pytest.raises(Exception, match="records that were to be read are gone"):
        values(reader(spark, broker, "lost", **bounds))
    assert values(reader(spark, broker, "lost", failOnDataLoss="false", **bounds)) == ["v6", "v7", "v8", "v9"]


def test_a_stream_goes_on_where_its_checkpoint_ends(
    spark: Any, broker: AnyBroker, checkpoint: str, tmp_path: Path
) -> None:
    """In micro-batches of the size asked for, with its progress to be seen by lag tools in a group."""
    filled(broker, "stream", 20)
    sink = str(tmp_path / "rows")

    def run() -> list[int]:
        options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 8, "kafka.group.id": "lag"}
        rows = stream(spark, broker, "stream", **options).selectExpr(
            "cast(value as string) value", "partition", "offset"
        )
        query = rows.writeStream.format("parquet").option("checkpointLocation", checkpoint).option("path", sink)
        done = query.trigger(availableNow=True).start()
        done.awaitTermination()
        return [progress["numInputRows"] for progress in done.recentProgress if progress["numInputRows"]]

    assert run() == [8, 8, 4]
    filled(broker, "stream", 4)
    assert run() == [4]
    rows = spark.read.parquet(sink).collect()
    assert len(rows) == len({(row["partition"], row["offset"]) for row in rows}) == 24
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        seen_by_tools = admin.list_group_offsets("lag")
    assert {partition.partition: found.offset for partition, found in seen_by_tools.items()} == {0: 12, 1: 12}


def test_a_wrong_option_is_told_at_once(spark: Any, broker: AnyBroker) -> None:
    with pytest.raises(Exception, match="unknown options: maxoffsetpertrigger"):
        reader(spark, broker, "columns", maxOffsetPerTrigger=5).printSchema()


def test_an_empty_topic_is_no_rows(spark: Any, broker: AnyBroker) -> None:
    create(broker, "empty", 2)
    assert values(reader(spark, broker, "empty")) == []


def test_a_query_may_name_the_columns_as_its_schema(spark: Any, broker: AnyBroker) -> None:
    filled(broker, "named-schema", 3, partitions=1)
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "named-schema"}
    frame = spark.read.format("ottla").schema("offset bigint, key binary").options(**options).load()
    assert [tuple(row) for row in frame.collect()] == [(0, b"k0"), (1, b"k1"), (2, b"k2")]


def test_the_source_can_be_a_view_in_sql(spark: Any, broker: AnyBroker) -> None:
    filled(broker, "view", 4, partitions=1)
    options = f"`kafka.bootstrap.servers` '{broker.bootstrap_servers}', subscribe 'view', valueFormat 'string'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW view_of_topic USING ottla OPTIONS ({options})")
    (row,) = spark.sql("SELECT max(value) AS last, count(*) AS count FROM view_of_topic").collect()
    assert (row["last"], row["count"]) == ("v3", 4)
