"""What changes under a running query: partitions, topics, compaction, transactions. Gaps are no loss, loss is told."""

from itertools import count as count_from
from pathlib import Path
from typing import Any

import pytest

from ottla.base.types import TopicPartition
from ottla.client import Admin, Producer
from ottla.testing import Broker
from tests.spark.brokers import AnyBroker
from tests.spark.log_bytes import batch_spans
from tests.spark.source_topics import create, filled, reader, sent, stream, values
from tests.spark.waiting import until


class Copy:
    """A query that is started again and again with one checkpoint, and what it has read so far."""

    def __init__(self, spark: Any, broker: AnyBroker, directory: Path, **subscription: object) -> None:
        self._spark = spark
        self._frame = lambda **options: stream(
            spark, broker, "", **{"startingOffsets": "earliest", **subscription, **options}
        )
        self._sink, self._checkpoint = str(directory / "rows"), str(directory / "checkpoint")

    def run(self, **options: object) -> list[str]:
        query = self._frame(**options).writeStream.format("parquet").option("checkpointLocation", self._checkpoint)
        query.option("path", self._sink).trigger(availableNow=True).start().awaitTermination()
        return values(self._spark.read.parquet(self._sink))


def test_a_new_partition_is_read_from_its_start(spark: Any, broker: AnyBroker, tmp_path: Path) -> None:
    filled(broker, "widened", 2, partitions=1)
    copy = Copy(spark, broker, tmp_path, subscribe="widened")
    assert copy.run() == ["v0", "v1"]
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_partitions({"widened": 2}, keys_may_move=True)
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("widened", value=b"new", partition=1)
    assert copy.run() == ["new", "v0", "v1"]


def test_a_new_topic_that_matches_is_read_from_its_start(spark: Any, broker: AnyBroker, tmp_path: Path) -> None:
    filled(broker, "match-a", 1, partitions=1)
    copy = Copy(spark, broker, tmp_path, subscribe=None, subscribePattern="match-.")
    assert copy.run() == ["v0"]
    filled(broker, "match-b", 2, partitions=1)
    assert copy.run() == ["v0", "v0", "v1"]


def test_a_topic_deleted_and_created_anew_is_told(spark: Any, broker: AnyBroker, tmp_path: Path) -> None:
    """Even when it has more records by now than the old one had: its id is another."""
    filled(broker, "anew", 3, partitions=1)
    copy = Copy(spark, broker, tmp_path, subscribe="anew")
    assert copy.run() == ["v0", "v1", "v2"]
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.delete_topic("anew")
        until(lambda: "anew" not in admin.list_topics())
    filled(broker, "anew", 5, partitions=1)
    with pytest.raises(Exception, match="anew was deleted and created anew"):
        copy.run()
    assert copy.run(failOnDataLoss="false") == ["v0", "v0", "v1", "v1", "v2", "v2", "v3", "v4"]


@pytest.mark.parametrize(
    ("option", "topics"),
    [
        ("subscribePattern", "gone-pattern-."),
        ("subscribe", "gone-name-a,gone-name-b"),
        ("assign", '{"gone-assign-a": [0], "gone-assign-b": [0]}'),
    ],
)
def test_a_topic_that_is_gone_is_told(spark: Any, broker: AnyBroker, tmp_path: Path, option: str, topics: str) -> None:
    kind = {"subscribePattern": "pattern", "subscribe": "name", "assign": "assign"}[option]
    kept, gone = f"gone-{kind}-a", f"gone-{kind}-b"
    for topic in (kept, gone):
        filled(broker, topic, 1, partitions=1)
    copy = Copy(spark, broker, tmp_path, **{"subscribe": None, option: topics})
    assert copy.run() == ["v0", "v0"]
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.delete_topic(gone)
        until(lambda: gone not in admin.list_topics())
    with pytest.raises(Exception, match=f"{gone}-0 was read up to 1 and is not there"):
        copy.run()
    for _ in range(2):  # The second one begins where the first one has already gone on without it.
        sent(broker, kept, [b"later"])
        rows = copy.run(failOnDataLoss="false")
    assert rows == ["later", "later", "v0", "v0"]


def test_transactions_leave_gaps_that_are_no_loss(spark: Any, broker: AnyBroker, tmp_path: Path) -> None:
    create(broker, "gaps")
    with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="gaps") as producer:
        producer.init_transactions()
        for number in range(6):
            producer.begin_transaction()
            producer.send("gaps", value=f"v{number}".encode(), partition=0)
            producer.flush()
            producer.abort_transaction() if number % 2 else producer.commit_transaction()
    assert Copy(spark, broker, tmp_path, subscribe="gaps").run(maxOffsetsPerTrigger=3) == ["v0", "v2", "v4"]
    only_a_marker = {"startingOffsets": '{"gaps": {"0": 1}}', "endingOffsets": '{"gaps": {"0": 4}}'}
    assert values(reader(spark, broker, "gaps", **only_a_marker)) == []


def test_compaction_leaves_gaps_that_are_no_loss(spark: Any, ottla_broker: Broker, tmp_path: Path) -> None:
    """Our broker is told to compact at once; whose gaps they are makes no difference to a reader."""
    partition, count = TopicPartition("compacted", 0), 3_000
    create(
        ottla_broker,
        "compacted",
        cleanup_policy="compact",
        segment_bytes=str(1 << 20),
        min_cleanable_dirty_ratio="0.01",
    )
    sent(ottla_broker, "compacted", [b"%04d" % number + b"x" * 1000 for number in range(count)])
    until(lambda: batch_spans(ottla_broker, partition)[0].first > 0)
    for attempt in count_from(0):
        spans = batch_spans(ottla_broker, partition)
        rows = values(reader(spark, ottla_broker, "compacted", minPartitions=4))
        copy = Copy(spark, ottla_broker, tmp_path / str(attempt), subscribe="compacted")
        copied = copy.run(maxOffsetsPerTrigger=1_000)
        if batch_spans(ottla_broker, partition) == spans:
            break  # Else the cleaner was at work between one look and the other.
    assert len(rows) == sum(span.record_count for span in spans) < count
    assert rows[-1].startswith(f"{count - 1:04}")
    assert copied == rows
