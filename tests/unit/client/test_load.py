"""The load generator against the cluster that librdkafka carries for tests: counts, spreads, and every way to fail."""

import ctypes
from collections.abc import Iterator

import pytest

from ottla.base.errors import ErrorCode
from ottla.client import librdkafka
from ottla.client.bulk import (
    LoadConsumer,
    LoadProducer,
    MessageBlock,
    is_partition_end,
    message_at,
    payload_at,
)
from ottla.client.librdkafka import ClientError, Message
from ottla.client.load import LoadError, ReadTally, consume_load, produce_load

PRODUCE_API = 0
NOWHERE = "127.0.0.1:1"


class TestCluster:
    """A broker with sockets and logs in memory, which refuses on request."""

    __test__ = False

    def __init__(self) -> None:
        self._library = ctypes.CDLL(librdkafka.library_path())
        self._library.rd_kafka_mock_cluster_new.restype = ctypes.c_void_p
        self._library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
        self._owner = librdkafka.Handle(librdkafka.PRODUCER, "owner", {"log_level": 0})
        self._cluster = ctypes.c_void_p(self._library.rd_kafka_mock_cluster_new(ctypes.c_void_p(self._owner.client), 1))
        self.bootstrap: str = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()

    def create(self, topic: str, *, partitions: int = 1) -> str:
        self._library.rd_kafka_mock_topic_create(self._cluster, topic.encode(), partitions, 1)
        return topic

    def refuse_next_produce(self, code: ErrorCode) -> None:
        self._library.rd_kafka_mock_push_request_errors(
            self._cluster, ctypes.c_int16(PRODUCE_API), ctypes.c_size_t(1), ctypes.c_int(code)
        )

    def close(self) -> None:
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._owner.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[TestCluster]:
    running = TestCluster()
    yield running
    running.close()


def test_the_wheels_library_is_found() -> None:
    assert "librdkafka" in librdkafka.library_path()
    assert int(librdkafka.version().split(".")[0]) >= 2


def test_what_is_produced_is_consumed(cluster: TestCluster) -> None:
    topic = cluster.create("round-trip")
    produced = produce_load(cluster.bootstrap, topic, message_bytes=100, count=12_345)
    consumed = consume_load(cluster.bootstrap, topic, count=12_345)
    assert (produced.messages, produced.bytes) == (12_345, 1_234_500)
    assert (consumed.messages, consumed.bytes) == (12_345, 1_234_500)
    assert produced.messages_per_second == pytest.approx(12_345 / produced.seconds)


def test_reading_starts_at_an_offset(cluster: TestCluster) -> None:
    topic = cluster.create("from-offset")
    produce_load(cluster.bootstrap, topic, message_bytes=10, count=100)
    assert consume_load(cluster.bootstrap, topic, count=30, offset=70).messages == 30


def test_partitions_take_turns(cluster: TestCluster) -> None:
    topic = cluster.create("turns", partitions=4)
    produce_load(cluster.bootstrap, topic, message_bytes=10, count=10_002, partition=None)
    for partition, expected in enumerate((2_501, 2_501, 2_500, 2_500)):
        assert consume_load(cluster.bootstrap, topic, count=expected, partition=partition).messages == expected
    assert consume_load(cluster.bootstrap, topic, count=10_002, partition=None).messages == 10_002


def test_turns_are_even_when_partitions_do_not_divide_a_call(cluster: TestCluster) -> None:
    topic = cluster.create("uneven", partitions=3)
    produce_load(cluster.bootstrap, topic, message_bytes=10, count=15_000, partition=None)
    for partition in range(3):
        consume_load(cluster.bootstrap, topic, count=5_000, partition=partition)
    with pytest.raises(LoadError, match="5000 of 5001"):
        consume_load(cluster.bootstrap, topic, count=5_001, partition=0, stall_seconds_max=0.1)


def test_payloads_are_cycled_through(cluster: TestCluster) -> None:
    topic = cluster.create("payloads")
    load = produce_load(cluster.bootstrap, topic, payloads=[b"a", b"bb", b""], count=7)
    assert load.bytes == 2 * 3 + 1
    with LoadConsumer(cluster.bootstrap, topic) as consumer:
        consumer.start(0, 0)
        addresses = consumer.read(limit=7, timeout_ms=10_000)
        assert [payload_at(address) for address in addresses] == [b"a", b"bb", b"", b"a", b"bb", b"", b"a"]
        assert [message_at(address).offset for address in addresses] == list(range(7))
        consumer.release()


def test_a_full_queue_waits_for_room(cluster: TestCluster) -> None:
    topic = cluster.create("full-queue")
    load = produce_load(
        cluster.bootstrap, topic, message_bytes=10, count=20_000, config={"queue.buffering.max.messages": 500}
    )
    assert consume_load(cluster.bootstrap, topic, count=20_000).messages == load.messages


def test_progress_grows_to_the_whole(cluster: TestCluster) -> None:
    topic = cluster.create("progress")
    sent: list[int] = []
    read: list[int] = []
    produce_load(cluster.bootstrap, topic, message_bytes=10, count=12_000, on_progress=sent.append)
    consume_load(cluster.bootstrap, topic, count=12_000, on_progress=read.append)
    assert sent == sorted(sent)
    assert sent[-1] == 12_000
    assert read == [5_000, 10_000, 12_000]


def test_one_message_and_its_acknowledgement(cluster: TestCluster) -> None:
    topic = cluster.create("one-by-one")
    block = MessageBlock([b"payload"], length=1)
    with LoadProducer(cluster.bootstrap, topic, config={"linger.ms": 0}, every_delivery=True) as producer:
        for _ in range(3):
            producer.send_and_wait(block)
            assert producer.undelivered_count == 0
    assert consume_load(cluster.bootstrap, topic, count=3).messages == 3


def test_copied_payloads_may_change_between_sends(cluster: TestCluster) -> None:
    topic = cluster.create("stamps")
    block = MessageBlock([b"0-rest"], length=2)
    with LoadProducer(cluster.bootstrap, topic) as producer:
        for stamp in (b"1", b"2"):
            block.overwrite(0, stamp)
            producer.send(block, 2, copy=True)
        producer.wait_delivered()
    with LoadConsumer(cluster.bootstrap, topic) as consumer:
        consumer.start(0, 0)
        addresses = consumer.read(limit=4, timeout_ms=10_000)
        assert [payload_at(address) for address in addresses] == [b"1-rest", b"1-rest", b"2-rest", b"2-rest"]
        assert payload_at(addresses[0], first_bytes=1) == b"1"
        consumer.release()


def test_the_end_of_a_partition_is_told_apart(cluster: TestCluster) -> None:
    topic = cluster.create("the-end")
    produce_load(cluster.bootstrap, topic, message_bytes=10, count=2)
    with LoadConsumer(cluster.bootstrap, topic, config={"enable.partition.eof": True}) as consumer:
        consumer.start(0, 0)
        addresses = consumer.read(limit=3, timeout_ms=10_000)
        assert [is_partition_end(address) for address in addresses] == [False, False, True]
        consumer.release()


def test_a_refused_batch_is_an_error(cluster: TestCluster) -> None:
    topic = cluster.create("refused")
    cluster.refuse_next_produce(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(LoadError, match=r"10 messages not delivered: .*[Aa]uthorization"):
        produce_load(cluster.bootstrap, topic, message_bytes=10, count=10)


def test_a_refused_single_message_is_an_error(cluster: TestCluster) -> None:
    topic = cluster.create("refused-single")
    cluster.refuse_next_produce(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with LoadProducer(cluster.bootstrap, topic, every_delivery=True) as producer, pytest.raises(LoadError):
        producer.send_and_wait(MessageBlock([b"payload"], length=1))


def test_a_message_the_client_refuses_is_an_error(cluster: TestCluster) -> None:
    topic = cluster.create("too-large")
    with pytest.raises(LoadError, match="too large"):
        produce_load(cluster.bootstrap, topic, message_bytes=2_000_000, count=1)


def test_a_message_that_times_out_is_an_error() -> None:
    config = {"message.timeout.ms": 50}
    with LoadProducer(NOWHERE, "topic", config=config) as producer, pytest.raises(LoadError, match="not delivered"):
        producer.send(MessageBlock([b"payload"], length=1), 1)
        producer.wait_delivered()


def test_patience_ends_when_no_acknowledgement_comes() -> None:
    block = MessageBlock([b"payload"], length=2)
    with LoadProducer(NOWHERE, "topic", stall_seconds_max=0.1) as producer:
        producer.send(block, 2)
        with pytest.raises(LoadError, match="2 messages wait"):
            producer.wait_delivered()


def test_patience_ends_when_the_queue_stays_full() -> None:
    block = MessageBlock([b"payload"], length=2)
    config = {"queue.buffering.max.messages": 1}
    with (
        LoadProducer(NOWHERE, "topic", config=config, stall_seconds_max=0.1) as producer,
        pytest.raises(LoadError, match="1 messages wait"),
    ):
        producer.send(block, 2)


def test_an_unknown_partition_is_an_error(cluster: TestCluster) -> None:
    topic = cluster.create("one-partition")
    with pytest.raises(LoadError, match="partition"):
        produce_load(cluster.bootstrap, topic, message_bytes=10, count=1, partition=7)


def test_an_offset_that_does_not_exist_is_an_error(cluster: TestCluster) -> None:
    topic = cluster.create("out-of-range")
    produce_load(cluster.bootstrap, topic, message_bytes=10, count=5)
    with pytest.raises(LoadError):
        consume_load(
            cluster.bootstrap, topic, count=1, offset=99, config={"auto.offset.reset": "error"}, stall_seconds_max=2
        )


def test_a_wrong_option_is_named() -> None:
    with pytest.raises(ClientError, match=r"no\.such\.option"):
        produce_load("127.0.0.1:1", "topic", count=1, config={"no.such.option": 1})


def _messages(*offsets_and_errors: tuple[int, int]) -> tuple[ctypes.Array[Message], list[int]]:
    messages = (Message * len(offsets_and_errors))()
    for message, (offset, err) in zip(messages, offsets_and_errors, strict=True):
        message.offset, message.err, message.payload_bytes = offset, err, 10
    start = ctypes.addressof(messages)
    return messages, [start + index * ctypes.sizeof(Message) for index in range(len(messages))]


def test_dense_offsets_are_counted() -> None:
    tally = ReadTally(next_offset=5)
    for offsets in ((5, 6, 7), (8, 9)):
        kept, addresses = _messages(*((offset, 0) for offset in offsets))
        tally.take(addresses)
        del kept
    assert (tally.messages, tally.bytes, tally.next_offset) == (5, 50, 10)


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(((6, 0), (7, 0)), id="starts late"),
        pytest.param(((5, 0), (7, 0)), id="a hole"),
        pytest.param(((5, 0), (5, 0)), id="twice the same"),
        pytest.param(((5, 0), (6, -185)), id="ends in an error"),
    ],
)
def test_anything_but_the_next_offsets_is_an_error(read: tuple[tuple[int, int], ...]) -> None:
    kept, addresses = _messages(*read)
    with pytest.raises(LoadError):
        ReadTally(next_offset=5).take(addresses)
    del kept


def test_an_error_between_mixed_partitions_is_found() -> None:
    kept, addresses = _messages((5, 0), (9, -185), (6, 0))
    with pytest.raises(LoadError):
        ReadTally(next_offset=None).take(addresses)
    del kept
