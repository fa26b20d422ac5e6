"""Kafka's own tools on transactions: kafka-transactions, kafka-features, kafka-dump-log's decoders, the formatters."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.client import Client, Record
from tests.conformance.groups import new_group
from tests.conformance.kafka_tools import Tools
from tests.conformance.raw_requests import begin_hanging_transaction
from tests.conformance.transactions import Transactional, committed_values, last_stable_offset
from tests.conformance.under_test import BrokerUnderTest, Keeper
from tests.conformance.waiting import eventually

Open = Callable[..., Transactional]
Row = dict[str, str]

HOUR_MS = 3_600_000
UNUSED_PRODUCER_ID = 1 << 40
VERIFICATION = "transaction.partition.verification.enable"


def rows(tools: Tools, *arguments: str) -> list[Row]:
    """What kafka-transactions prints: a heading, then a line for each."""
    heading, *lines = tools.ask("TransactionsCommand", *arguments).lines
    names = heading.split()
    return [dict(zip(names, line.split("\t"), strict=False)) for line in lines]


@pytest.fixture
def producer(keeper: Keeper, transactional: Open) -> Transactional:
    return transactional(keeper.client)


def test_transactions_are_listed_by_state(tools: Tools, keeper: Keeper, producer: Transactional, topic: str) -> None:
    def listed(*filters: str) -> dict[str, str]:
        found = rows(tools, "list", *filters)
        return {row["TransactionalId"].strip(): row["TransactionState"].strip() for row in found}

    name = producer.transactional_id
    assert listed()[name] == "Empty"
    producer.begin()
    producer.write(topic, b"value")
    assert listed()[name] == "Ongoing"
    assert name not in listed("--duration-filter", str(HOUR_MS))
    assert listed("--transactional-id-pattern", f"{name}.*") == {name: "Ongoing"}
    producer.commit()
    eventually(lambda: expect(listed()[name], "CompleteCommit"))
    producer.begin()
    producer.write(topic, b"value")
    producer.abort()
    eventually(lambda: expect(listed()[name], "CompleteAbort"))


def expect(found: object, expected: object) -> None:
    assert found == expected


def test_a_transaction_is_described(tools: Tools, producer: Transactional, topic: str) -> None:
    producer.begin()
    producer.write(topic, b"value")
    [row] = rows(tools, "describe", "--transactional-id", producer.transactional_id)
    assert row["TransactionState"].strip() == "Ongoing"
    assert row["TopicPartitions"].strip() == f"{topic}-0"
    assert row["TransactionTimeoutMs"].strip() == "60000"
    assert int(row["TransactionDurationMs"]) < HOUR_MS
    producer.commit()
    missing = tools.attempt_ask("TransactionsCommand", "describe", "--transactional-id", "no-such-id")
    assert missing.status == 1


def test_an_open_transactions_producer_is_described(tools: Tools, producer: Transactional, topic: str) -> None:
    producer.begin()
    producer.write(topic, b"one", b"two")
    of_partition = ("describe-producers", "--topic", topic, "--partition", "0")
    [open_row] = rows(tools, *of_partition)
    assert open_row["CurrentTransactionStartOffset"].strip() == "0"
    assert open_row["LastSequence"].strip() == "1"
    producer.abort()

    def ended() -> None:
        [row] = rows(tools, *of_partition)
        assert row["CurrentTransactionStartOffset"].strip() == "None"
        assert int(row["LatestCoordinatorEpoch"]) >= 0

    eventually(ended)


@pytest.fixture
def unverified(keeper: Keeper) -> Iterator[None]:
    """The broker takes transactional batches without asking their coordinator."""
    node = str(keeper.client.call("describe_cluster")["controller"])
    change = {"kind": "broker", "name": node}
    keeper.client.call("change_configs", **change, changes=[("SET", VERIFICATION, "false")])
    yield
    keeper.client.call("change_configs", **change, changes=[("DELETE", VERIFICATION, None)])


def test_a_hanging_transaction_is_found_and_aborted(
    tools: Tools, keeper: Keeper, broker: BrokerUnderTest, topic: str, unverified: None
) -> None:
    an_hour_ago_ms = int(time.time() * 1000) - HOUR_MS
    eventually(
        lambda: begin_hanging_transaction(
            broker.bootstrap, topic, b"hangs", producer_id=UNUSED_PRODUCER_ID, timestamp_ms=an_hour_ago_ms
        )
    )
    keeper.produce(topic, [Record(value=b"waiting")])
    assert last_stable_offset(keeper.client, topic) == 0
    finding = ("find-hanging", "--topic", topic, "--max-transaction-timeout", "1")
    [found] = rows(tools, *finding)
    assert (found["Topic"].strip(), found["Partition"].strip()) == (topic, "0")
    assert found["ProducerId"].strip() == str(UNUSED_PRODUCER_ID)
    assert found["StartOffset"].strip() == "0"
    tools.ask("TransactionsCommand", "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    assert committed_values(keeper.client, topic, count=1) == [b"waiting"]
    assert rows(tools, *finding) == []


def test_a_transaction_under_way_does_not_hang(tools: Tools, producer: Transactional, topic: str) -> None:
    producer.begin()
    producer.write(topic, b"value")
    assert rows(tools, "find-hanging", "--topic", topic) == []
    producer.commit()


def test_an_open_transaction_is_terminated_by_force(
    tools: Tools, keeper: Keeper, producer: Transactional, topic: str
) -> None:
    """Whoever is left of the producer is fenced, and its transaction ends (KIP-939)."""
    producer.begin()
    producer.write(topic, b"value")
    tools.ask("TransactionsCommand", "forceTerminateTransaction", "--transactionalId", producer.transactional_id)
    keeper.produce(topic, [Record(value=b"after")])
    assert committed_values(keeper.client, topic, count=1) == [b"after"]


@pytest.mark.needs_directory
def test_the_transaction_log_is_kafkas(tools: Tools, producer: Transactional, topic: str, data_dir: Path) -> None:
    name = producer.transactional_id
    producer.begin()
    producer.write(topic, b"value")
    producer.commit()

    def states() -> list[str]:
        printed = [
            tools.dump(log, "--transaction-log-decoder").out for log in data_dir.rglob("__transaction_state-*/*.log")
        ]
        lines = [line for text in printed for line in text.splitlines() if name in line]
        found = [found[1] for line in lines if (found := re.search(r'"transactionStatus":(\d)|state=(\w+)', line))]
        assert len(found) >= 4, lines
        return found

    # Empty, Ongoing, PrepareCommit, CompleteCommit; in TransactionLogValue's own numbers.
    assert eventually(states)[:4] == ["0", "1", "2", "4"]


@pytest.mark.needs_directory
def test_offsets_of_transactions_are_kafkas(tools: Tools, producer: Transactional, topic: str, data_dir: Path) -> None:
    group = new_group()
    producer.begin()
    producer.send_offsets(group, topic, {0: 42})
    producer.commit()

    def dumped() -> str:
        printed = [tools.dump(log, "--offsets-decoder").out for log in data_dir.rglob("__consumer_offsets-*/*.log")]
        [ours] = [text for text in printed if group in text]
        assert "endTxnMarker: COMMIT" in ours
        return ours

    printed = eventually(dumped)
    assert re.search(rf'"group":"{group}","topic":"{topic}","partition":0', printed), printed
    assert re.search(r'"offset":42', printed), printed
    assert "isTransactional: true" in printed


def test_the_console_consumer_formats_the_transaction_log(
    tools: Tools, keeper: Keeper, producer: Transactional, topic: str
) -> None:
    producer.begin()
    producer.write(topic, b"value")
    producer.commit()
    formatter = "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"
    options = ("--formatter", formatter, "--from-beginning", "--timeout-ms", "3000")
    printed = tools.ask("ConsoleConsumer", "--topic", "__transaction_state", *options).out
    ours = [line for line in printed.splitlines() if producer.transactional_id in line]
    assert ours, printed
    assert f'"topic":"{topic}"' in "".join(ours)


def finalized_transaction_version(tools: Tools) -> int:
    printed = tools.ask("FeatureCommand", "describe").out
    found = re.search(r"transaction\.version\s.*FinalizedVersionLevel: (\d)", printed)
    assert found is not None, printed
    return int(found[1])


@pytest.fixture(params=[1, 2])
def transaction_version(request: pytest.FixtureRequest, tools: Tools) -> Iterator[int]:
    if request.param == 1:
        tools.ask("FeatureCommand", "downgrade", "--feature", "transaction.version=1")
    eventually(lambda: expect(finalized_transaction_version(tools), request.param))
    yield request.param
    if request.param == 1:
        tools.ask("FeatureCommand", "upgrade", "--feature", "transaction.version=2")
        eventually(lambda: expect(finalized_transaction_version(tools), 2))


def test_the_java_client_follows_the_transaction_version(
    transaction_version: int,
    borrow: Callable[[str], Client],
    keeper: Keeper,
    transactional: Open,
    topic: str,
) -> None:
    """With version 2 every transaction has an epoch of its own, and Produce adds the partition; with 1 neither."""
    java = borrow("java")
    producer = transactional(java)
    epochs = []
    for number in range(3):
        producer.begin()
        producer.write(topic, b"%d" % number)
        described = java.call("describe_transaction", transactional_id=producer.transactional_id)
        assert described["partitions"] == [[topic, 0]]
        epochs.append(described["epoch"])
        producer.commit()
    assert epochs == ([0, 0, 0] if transaction_version == 1 else [0, 1, 2])
    assert committed_values(keeper.client, topic, count=3) == [b"0", b"1", b"2"]


def test_librdkafka_adds_partitions_itself_whatever_the_version(
    transaction_version: int, keeper: Keeper, transactional: Open, topic: str
) -> None:
    producer = transactional(keeper.client)
    for number in range(3):
        producer.begin()
        producer.write(topic, b"%d" % number)
        producer.abort() if number == 1 else producer.commit()
    assert committed_values(keeper.client, topic, count=2) == [b"0", b"2"]


def test_a_producer_lives_through_a_change_of_the_transaction_version(
    borrow: Callable[[str], Client], tools: Tools, keeper: Keeper, transactional: Open, topic: str
) -> None:
    producers = [transactional(borrow("java")), transactional(keeper.client)]
    expected = []
    for level in (2, 1, 2):
        change = "upgrade" if level == 2 else "downgrade"
        if finalized_transaction_version(tools) != level:
            tools.ask("FeatureCommand", change, "--feature", f"transaction.version={level}")
            eventually(lambda level=level: expect(finalized_transaction_version(tools), level))
        for producer in producers:
            producer.begin()
            producer.write(topic, f"{producer.client.name} {level}".encode())
            producer.commit()
            expected.append(f"{producer.client.name} {level}".encode())
    assert committed_values(keeper.client, topic, count=len(expected)) == expected


def test_producers_are_fenced_by_an_administrator(
    borrow: Callable[[str], Client], keeper: Keeper, transactional: Open, topic: str
) -> None:
    java = borrow("java")
    producer = transactional(java)
    producer.begin()
    producer.write(topic, b"fenced")
    java.call("fence_producers", transactional_id=producer.transactional_id)
    keeper.produce(topic, [Record(value=b"after")])
    assert committed_values(keeper.client, topic, count=1) == [b"after"]
