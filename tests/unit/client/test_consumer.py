"""The consumer against librdkafka's mock cluster: assigned partitions, groups, positions and commits."""

import itertools
import json
import re
import signal
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from confluent_kafka import KafkaError, KafkaException

from ottla.client import (
    ClientError,
    ConfigError,
    Consumer,
    ConsumerRecord,
    DeserializationError,
    OffsetAndMetadata,
    Producer,
    TimestampType,
    TopicPartition,
)
from ottla.client.errors import ClosedError

from .conftest import MockCluster

FETCH = 1
WAIT_MS = 20_000

Open = Callable[..., Consumer]
GROUP_NAMES = (f"group-{number}" for number in itertools.count())


@pytest.fixture
def open_consumer(mock_cluster: MockCluster) -> Iterator[Open]:
    opened: list[Consumer] = []

    def open_one(**options: object) -> Consumer:
        defaults = {"bootstrap_servers": mock_cluster.bootstrap_servers, "auto_offset_reset": "earliest"}
        opened.append(Consumer(**{**defaults, **options}))  # type: ignore[arg-type]
        return opened[-1]

    yield open_one
    for consumer in opened:
        consumer.close()


def filled_topic(cluster: MockCluster, count: int, *, partitions: int = 1, values: list[bytes] | None = None) -> str:
    topic = cluster.topic(partitions=partitions)
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(count):
            value = values[number] if values else b"%d" % number
            producer.send(topic, value, partition=number % partitions, timestamp_ms=1_000 + number)
    return topic


def read(consumer: Consumer, count: int, **limits: int) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    while len(records) < count:
        polled = consumer.poll(WAIT_MS, **limits)
        assert polled, f"{len(records)} of {count} records"
        records.extend(polled)
    return records


def test_poll_returns_records_in_order_with_all_they_carry(mock_cluster: MockCluster, open_consumer: Open) -> None:
    topic = filled_topic(mock_cluster, 10)
    consumer = open_consumer()
    consumer.assign(TopicPartition(topic, 0))
    records = read(consumer, 10)
    assert [record.offset for record in records] == list(range(10))
    assert records[3] == (topic, 0, 3, 1_003, TimestampType.CREATE_TIME, None, b"3", [], 0)


def test_poll_returns_at_most_max_poll_records(mock_cluster: MockCluster, open_consumer: Open) -> None:
    consumer = open_consumer(max_poll_records=7)
    consumer.assign([(filled_topic(mock_cluster, 40), 0)])
    sizes = []
    while sum(sizes) < 40:
        sizes.append(len(consumer.poll(WAIT_MS)))
    assert max(sizes) <= 7
    consumer.seek_to_beginning()
    assert len(consumer.poll(WAIT_MS, max_records=3)) <= 3


def test_poll_of_nothing_returns_nothing_at_its_time(mock_cluster: MockCluster, open_consumer: Open) -> None:
    consumer = open_consumer()
    consumer.assign(TopicPartition(mock_cluster.topic(), 0))
    assert not consumer.poll(timedelta(milliseconds=1))
    assert len(consumer.poll(0)) == 0


def test_records_group_by_partition_and_know_what_to_commit(mock_cluster: MockCluster, open_consumer: Open) -> None:
    topic = filled_topic(mock_cluster, 9, partitions=3)
    consumer = open_consumer(max_poll_records=1_000)
    consumer.assign(consumer.partitions_for(topic))
    seen: dict[TopicPartition, int] = {}
    while sum(seen.values()) < 9:
        records = consumer.poll(WAIT_MS)
        for partition, listed in records.by_partition().items():
            seen[partition] = seen.get(partition, 0) + len(listed)
            assert records.next_offsets()[partition].offset == listed[-1].offset + 1
    assert seen == {TopicPartition(topic, partition): 3 for partition in range(3)}


def test_seek_forward_back_and_to_the_ends(mock_cluster: MockCluster, open_consumer: Open) -> None:
    topic = filled_topic(mock_cluster, 10)
    partition = TopicPartition(topic, 0)
    consumer = open_consumer()
    consumer.assign(partition)
    consumer.seek(partition, 6)
    assert consumer.position(partition) == 6
    assert read(consumer, 1, max_records=1)[0].offset == 6
    assert consumer.position(partition) == 7
    consumer.seek_to_beginning(partition)
    assert read(consumer, 1, max_records=1)[0].offset == 0
    consumer.seek_to_end()
    assert not consumer.poll(50)


def test_seek_in_what_is_not_assigned_is_told(open_consumer: Open) -> None:
    with pytest.raises(ClientError, match=r"orders-0, which is not assigned.*assignment\(\)"):
        open_consumer().seek(TopicPartition("orders", 0), 5_000_000)


def test_a_consumer_without_group_begins_where_auto_offset_reset_says(
    mock_cluster: MockCluster, open_consumer: Open
) -> None:
    partition = TopicPartition(filled_topic(mock_cluster, 3), 0)
    early, late = open_consumer(), open_consumer(auto_offset_reset="latest")
    for consumer in (early, late):
        consumer.assign(partition)
    assert (early.position(partition), late.position(partition)) == (0, 3)
    assert read(early, 3)[0].offset == 0
    assert not late.poll(50)


def test_offsets_at_the_ends(mock_cluster: MockCluster, open_consumer: Open) -> None:
    topic = filled_topic(mock_cluster, 5, partitions=2)
    consumer = open_consumer()
    partitions = consumer.partitions_for(topic)
    assert consumer.beginning_offsets(partitions) == {partitions[0]: 0, partitions[1]: 0}
    assert consumer.end_offsets(partitions) == {partitions[0]: 3, partitions[1]: 2}


def test_an_offset_that_is_gone_is_told_where_nothing_else_was_wanted(
    mock_cluster: MockCluster, open_consumer: Open
) -> None:
    partition = TopicPartition(filled_topic(mock_cluster, 3), 0)
    consumer = open_consumer(auto_offset_reset="none", group_id=next(GROUP_NAMES))
    consumer.assign(partition)
    with pytest.raises(ClientError, match=r"_AUTO_OFFSET_RESET.*seek\(\)"):
        consumer.poll(WAIT_MS)
    consumer.seek(partition, 1)
    assert read(consumer, 2)[0].offset == 1


def test_an_error_swallows_no_records(mock_cluster: MockCluster, open_consumer: Open) -> None:
    topic = filled_topic(mock_cluster, 5)
    consumer = open_consumer()
    consumer.assign(TopicPartition(topic, 0))
    mock_cluster.fail_next(FETCH, 87)
    offsets: list[int] = []
    refusals = 0
    while len(offsets) < 5:
        try:
            offsets.extend(record.offset for record in consumer.poll(WAIT_MS))
        except ClientError as error:
            assert error.code == "INVALID_RECORD"
            refusals += 1
    assert offsets == [0, 1, 2, 3, 4]
    assert refusals


def test_a_paused_partition_rests(mock_cluster: MockCluster, open_consumer: Open) -> None:
    topic = filled_topic(mock_cluster, 20, partitions=2)
    consumer = open_consumer()
    first, second = consumer.partitions_for(topic)
    consumer.assign([first, second])
    consumer.pause(first)
    assert {record.topic_partition for record in read(consumer, 10)} == {second}
    consumer.resume(first)
    assert {record.topic_partition for record in read(consumer, 10)} == {first}


def test_iteration_commits_what_the_body_has_seen(mock_cluster: MockCluster, open_consumer: Open) -> None:
    topic = filled_topic(mock_cluster, 10)
    consumer = open_consumer(group_id=next(GROUP_NAMES))
    consumer.assign(TopicPartition(topic, 0))
    for record in consumer:
        if record.offset == 3:
            consumer.commit()
            break
    assert consumer.committed(record.topic_partition)[record.topic_partition] == OffsetAndMetadata(4, "", 0)
    assert next(iter(consumer)).offset == 4


def test_resume_at_the_committed_offset(mock_cluster: MockCluster, open_consumer: Open) -> None:
    """Reads A, B, C, commits, crashes: the next one starts at D (seed 000 §3.3)."""
    partition = TopicPartition(filled_topic(mock_cluster, 7, values=list(map(str.encode, "ABCDEFG"))), 0)
    group = next(GROUP_NAMES)
    first = open_consumer(group_id=group)
    first.assign(partition)
    assert [record.value for record in read(first, 3, max_records=1)] == [b"A", b"B", b"C"]
    first.commit_sync()
    assert read(first, 1, max_records=1)[0].value == b"D"  # in the works when it crashes
    second = open_consumer(group_id=group)
    second.assign(partition)
    assert second.position(partition) == 3
    assert read(second, 1, max_records=1)[0].value == b"D"


def test_commit_of_given_offsets(mock_cluster: MockCluster, open_consumer: Open) -> None:
    topic = mock_cluster.topic(partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    consumer = open_consumer(group_id=next(GROUP_NAMES))
    consumer.commit({first: 5})
    consumer.commit({second: OffsetAndMetadata(7, "why")})
    committed = consumer.committed([first, second])
    assert [at and at[:2] for at in (committed[first], committed[second])] == [(5, ""), (7, "why")]


def test_commit_without_waiting(mock_cluster: MockCluster, open_consumer: Open) -> None:
    partition = TopicPartition(mock_cluster.topic(), 0)
    consumer = open_consumer(group_id=next(GROUP_NAMES))
    consumer.commit_async({partition: 5})
    consumer.commit_sync({TopicPartition(partition.topic, 0): 6})
    assert consumer.committed(partition)[partition].offset == 6  # type: ignore[union-attr]


class Troubled:
    """librdkafka's consumer, which does not know the coordinator for a while."""

    def __init__(self, kafka: object, code: int, *, count: int) -> None:
        self._kafka = kafka
        self._code = code
        self.failures_left = count

    def __getattr__(self, name: str) -> object:
        return getattr(self._kafka, name)

    def commit(self, **arguments: object) -> object:
        if self.failures_left:
            self.failures_left -= 1
            raise KafkaException(KafkaError(self._code))
        return self._kafka.commit(**arguments)  # type: ignore[attr-defined]


@pytest.mark.parametrize("code", [KafkaError._WAIT_COORD, KafkaError._TRANSPORT, KafkaError.NOT_COORDINATOR])
def test_a_commit_waits_for_a_coordinator_that_restarts(
    code: int, mock_cluster: MockCluster, open_consumer: Open
) -> None:
    partition = TopicPartition(mock_cluster.topic(partitions=1), 0)
    consumer = open_consumer(group_id=next(GROUP_NAMES))
    consumer._kafka = Troubled(consumer._kafka, code, count=3)  # type: ignore[assignment]
    with pytest.raises(ClientError) as refused:
        consumer.commit({partition: 4}, timeout_s=0)
    assert refused.value.retriable
    consumer.commit({partition: 5})
    assert consumer.committed(partition)[partition].offset == 5  # type: ignore[union-attr]


def test_a_commit_that_is_refused_is_not_repeated(mock_cluster: MockCluster, open_consumer: Open) -> None:
    partition = TopicPartition(mock_cluster.topic(partitions=1), 0)
    consumer = open_consumer(group_id=next(GROUP_NAMES))
    troubled = Troubled(consumer._kafka, KafkaError.ILLEGAL_GENERATION, count=3)
    consumer._kafka = troubled  # type: ignore[assignment]
    with pytest.raises(ClientError, match="ILLEGAL_GENERATION"):
        consumer.commit({partition: 5})
    assert troubled.failures_left == 2


def test_nothing_read_is_nothing_to_commit(open_consumer: Open) -> None:
    open_consumer(group_id=next(GROUP_NAMES)).commit()


def test_auto_commit_covers_only_polls_before_the_last(mock_cluster: MockCluster, open_consumer: Open) -> None:
    partition = TopicPartition(filled_topic(mock_cluster, 10), 0)
    group = next(GROUP_NAMES)
    crashing = open_consumer(group_id=group, enable_auto_commit=True, auto_commit_interval_ms=10)
    crashing.assign(partition)
    read(crashing, 1, max_records=1)
    read(crashing, 1, max_records=1)
    observer = open_consumer(group_id=group)
    while (committed := observer.committed(partition)[partition]) is None:
        pass
    assert committed.offset == 1
    crashing.close()  # an orderly end: what was returned last counts as processed
    while observer.committed(partition)[partition] == committed:
        pass
    assert observer.committed(partition)[partition].offset == 2  # type: ignore[union-attr]


def test_a_group_subscribes_and_each_group_reads_everything(mock_cluster: MockCluster, open_consumer: Open) -> None:
    topic = filled_topic(mock_cluster, 12, partitions=3)
    for _ in range(2):
        assigned: list[TopicPartition] = []
        consumer = open_consumer(group_id=next(GROUP_NAMES))
        consumer.subscribe([topic], on_assign=assigned.extend)
        assert sorted(record.value for record in read(consumer, 12)) == sorted(b"%d" % number for number in range(12))
        assert assigned == consumer.assignment() == [TopicPartition(topic, partition) for partition in range(3)]


def test_revoked_partitions_are_forgotten_after_their_listener_could_commit(
    mock_cluster: MockCluster, open_consumer: Open
) -> None:
    topic = filled_topic(mock_cluster, 6, partitions=2)
    group = next(GROUP_NAMES)
    consumer = open_consumer(group_id=group)
    revoked: list[TopicPartition] = []

    def on_revoke(partitions: list[TopicPartition]) -> None:
        consumer.commit()
        revoked.extend(partitions)

    consumer.subscribe(topic, on_revoke=on_revoke)
    read(consumer, 6)
    consumer.unsubscribe()
    while not revoked:
        consumer.poll(50)
    observer = open_consumer(group_id=group)
    committed = observer.committed(revoked)
    assert [at.offset for at in committed.values() if at] == [3, 3]


def test_a_broken_record_is_never_skipped_unseen(mock_cluster: MockCluster, open_consumer: Open) -> None:
    topic = filled_topic(mock_cluster, 4, values=[b"1", b"2", b"not json", b"4"])
    partition = TopicPartition(topic, 0)
    consumer = open_consumer(value_deserializer=json.loads)
    consumer.assign(partition)
    assert [record.value for record in read(consumer, 2)] == [1, 2]
    for _ in range(2):
        with pytest.raises(DeserializationError, match=rf"{topic}-0@2 .*seek\(partition, 3\)") as caught:
            consumer.poll(WAIT_MS)
        assert consumer.position(partition) == 2
    consumer.seek(caught.value.partition, caught.value.offset + 1)
    assert [record.value for record in read(consumer, 1)] == [4]


def test_null_is_not_deserialized(mock_cluster: MockCluster, open_consumer: Open) -> None:
    topic = mock_cluster.topic()
    with Producer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer:
        producer.send(topic, None, b"1")
    consumer = open_consumer(value_deserializer=json.loads, key_deserializer=json.loads)
    consumer.assign([(topic, 0)])
    assert read(consumer, 1)[0][5:7] == (1, None)


@pytest.mark.parametrize("call", ["subscribe", "commit", "committed"])
def test_what_needs_a_group_says_so(open_consumer: Open, call: str) -> None:
    arguments = {"subscribe": ["t"], "commit": [], "committed": [[]]}[call]
    with pytest.raises(ConfigError, match=rf"{call}\(\) needs a group.id"):
        getattr(open_consumer(), call)(*arguments)


def test_a_closed_consumer_says_so(open_consumer: Open) -> None:
    consumer = open_consumer()
    consumer.close()
    for call in (consumer.poll, consumer.assignment):
        with pytest.raises(ClosedError, match="open another"):
            call()
    assert list(consumer) == []


def test_interrupt_ends_a_poll(mock_cluster: MockCluster, open_consumer: Open) -> None:
    consumer = open_consumer()
    consumer.assign(TopicPartition(mock_cluster.topic(), 0))
    interrupt = threading.Timer(0.05, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        consumer.poll(WAIT_MS)


def test_what_a_listener_raises_comes_out_of_poll_and_costs_no_record(
    mock_cluster: MockCluster, open_consumer: Open
) -> None:
    def refuse(partitions: list[TopicPartition]) -> None:
        raise LookupError(f"no room for {partitions}")

    consumer = open_consumer(group_id=next(GROUP_NAMES))
    consumer.subscribe(filled_topic(mock_cluster, 2), on_assign=refuse)
    values: list[bytes] = []
    refusals = 0
    while len(values) < 2 or not refusals:
        try:
            values += [record.value for record in consumer.poll(WAIT_MS)]
        except LookupError:
            refusals += 1
    assert (values, refusals) == ([b"0", b"1"], 1)


@pytest.mark.parametrize("read_before", [0, 3])
def test_a_program_that_goes_on_after_an_interrupt_misses_nothing(
    mock_cluster: MockCluster, open_consumer: Open, read_before: int
) -> None:
    presses = iter([KeyboardInterrupt])

    def decode(value: bytes) -> bytes:
        if value == b"%d" % (read_before + 1):
            for press in presses:
                raise press
        return value

    topic = filled_topic(mock_cluster, 6)
    consumer = open_consumer(value_deserializer=decode)
    consumer.assign(consumer.partitions_for(topic))
    values = [record.value for record in read(consumer, read_before, max_records=read_before)] if read_before else []
    with pytest.raises(KeyboardInterrupt):
        read(consumer, 6)
    values += [record.value for record in read(consumer, 6 - read_before)]
    assert values == [b"%d" % number for number in range(6)]


def test_an_interrupt_is_not_lost_while_librdkafka_reports_errors(
    open_consumer: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """confluent-kafka forgets an exception that Python code raises in its callbacks, and Ctrl-C comes at any time."""
    for _ in range(5):
        consumer = open_consumer(bootstrap_servers="127.0.0.1:1", reconnect_backoff_ms=0, reconnect_backoff_max_ms=0)
        consumer.assign(TopicPartition("nowhere", 0))
        press = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
        press.start()
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(WAIT_MS)
        press.join()
        consumer.close()
    assert "_TRANSPORT" in caplog.text


def test_a_compiled_pattern_subscribes_to_what_matches(mock_cluster: MockCluster, open_consumer: Open) -> None:
    topic = filled_topic(mock_cluster, 2)
    consumer = open_consumer(group_id=next(GROUP_NAMES))
    consumer.subscribe(re.compile(f"{topic[:-1]}[{topic[-1]}]$"))
    assert {record.topic for record in read(consumer, 2)} == {topic}
