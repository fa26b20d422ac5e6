"""Who decides, and what was decided: one record a query, changed by one at a time."""

import itertools
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from ottla.client import ClientError
from ottla.client.raw.transactions import FENCED, TransactionHandle
from ottla.spark.decisions import Decision, DecisionLog, DecisionTable
from ottla.spark.sink_connections import connections_of
from ottla.spark.sink_options import SinkOptions
from ottla.testing import Broker
from ottla.wire.records import BatchBuilder, ControlType, batches, end_transaction_marker

_clients = itertools.count()


def log_of(broker: Broker) -> DecisionLog:
    """As another process would have it."""
    options = SinkOptions.parse(
        {"kafka.bootstrap.servers": broker.bootstrap_servers, "kafka.client.id": f"client-{next(_clients)}"}
    )
    return DecisionLog(connections_of(options))


def decision(query_id: str, batch_id: int) -> Decision:
    handles = (TransactionHandle("an-id", 7, 1), TransactionHandle("another", 8, 0))
    return Decision(query_id=query_id, run_id="run", earlier_runs=("old",), batch_id=batch_id, handles=handles)


def test_a_cluster_without_the_transactions_it_takes_is_told_with_the_guarantee_that_is_left() -> None:
    """librdkafka's mock has finalized no features, as Kafka before 4.0."""
    owner = Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 1, "log_level": 0})
    [broker] = owner.list_topics(timeout=10).brokers.values()
    options = SinkOptions.parse(
        {"kafka.bootstrap.servers": f"{broker.host}:{broker.port}", "kafka.max.block.ms": "100"}
    )
    with pytest.raises(ClientError, match=r"transaction\.version=2 .*guarantee=atLeastOnce"):
        DecisionLog(connections_of(options))


def test_a_decision_is_read_as_it_was_written() -> None:
    one = decision("query", 5)
    assert Decision.from_bytes("query", one.to_bytes()) == one


def test_a_decision_of_a_newer_version_is_refused() -> None:
    newer = decision("query", 5).to_bytes().replace(b'"version":1', b'"version":2')
    with pytest.raises(ValueError, match="a newer Ottla wrote them"):
        Decision.from_bytes("query", newer)


def test_only_what_is_committed_counts() -> None:
    table = DecisionTable()

    def written(producer_id: int, *decisions: Decision) -> None:
        builder = BatchBuilder(producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)
        for one in decisions:
            builder.append(0, one.query_id.encode(), one.to_bytes())
        taken(builder.build())

    def ended(producer_id: int, how: ControlType) -> None:
        marker = end_transaction_marker(
            how, coordinator_epoch=0, producer_id=producer_id, producer_epoch=0, timestamp=0
        )
        taken(marker)

    def taken(data: bytearray) -> None:
        for batch in batches(memoryview(data)):
            table.take(batch)

    written(1, decision("a", 1))
    written(2, decision("b", 1))
    assert table.of("a") is None
    ended(1, ControlType.COMMIT)
    assert table.of("a") == decision("a", 1)
    assert table.of("b") is None
    written(1, decision("a", 2))
    ended(1, ControlType.ABORT)
    ended(2, ControlType.COMMIT)
    assert (table.of("a"), table.of("b")) == (decision("a", 1), decision("b", 1))


def test_every_process_reads_what_one_has_updated(ottla_broker: Broker, ottla_topic: str) -> None:
    query = ottla_topic
    ours, theirs = log_of(ottla_broker), log_of(ottla_broker)
    assert ours.read(query) is None
    assert ours.update(query, lambda current: decision(query, 1)) == decision(query, 1)
    assert theirs.update(query, lambda current: current) == decision(query, 1)
    assert theirs.read(query) == decision(query, 1)
    theirs.update(query, lambda current: replace(decision(query, 2), handles=()))
    assert ours.update(query, lambda current: current) == replace(decision(query, 2), handles=())


def test_of_two_who_update_at_once_the_later_wins_and_the_other_is_told(ottla_broker: Broker, ottla_topic: str) -> None:
    query = ottla_topic
    ours, theirs = log_of(ottla_broker), log_of(ottla_broker)

    def overtaken(current: Decision | None) -> Decision:
        theirs.update(query, lambda current: decision(query, 2))
        return decision(query, 1)

    with pytest.raises(ClientError) as refused:
        ours.update(query, overtaken)
    assert refused.value.code in FENCED
    assert ours.update(query, lambda current: current) == decision(query, 2)
