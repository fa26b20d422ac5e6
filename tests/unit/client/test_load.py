"""Loads against librdkafka's mock cluster: what arrives is counted, and every way to fail is an error, not a figure."""

import ctypes

import pytest

from ottla.base.errors import ErrorCode
from ottla.client.librdkafka import Message
from ottla.client.load import LoadError, ReadTally, consume_load, produce_load
from ottla.wire.apis import ApiKey

from .conftest import MockCluster


def test_what_is_produced_is_consumed(mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic()
    produced = produce_load(mock_cluster.bootstrap_servers, topic, message_bytes=100, count=12_345)
    consumed = consume_load(mock_cluster.bootstrap_servers, topic, count=12_345)
    assert (produced.messages, produced.bytes) == (12_345, 1_234_500)
    assert (consumed.messages, consumed.bytes) == (12_345, 1_234_500)
    assert produced.messages_per_second == pytest.approx(12_345 / produced.seconds)


def test_reading_starts_at_an_offset(mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic()
    produce_load(mock_cluster.bootstrap_servers, topic, message_bytes=10, count=100)
    assert consume_load(mock_cluster.bootstrap_servers, topic, count=30, offset=70).messages == 30


def test_partitions_take_turns(mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic(partitions=4)
    produce_load(mock_cluster.bootstrap_servers, topic, message_bytes=10, count=10_002, partition=None)
    for partition, expected in enumerate((2_501, 2_501, 2_500, 2_500)):
        assert (
            consume_load(mock_cluster.bootstrap_servers, topic, count=expected, partition=partition).messages
            == expected
        )
    assert consume_load(mock_cluster.bootstrap_servers, topic, count=10_002, partition=None).messages == 10_002


def test_turns_are_even_when_partitions_do_not_divide_a_call(mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic(partitions=3)
    produce_load(mock_cluster.bootstrap_servers, topic, message_bytes=10, count=15_000, partition=None)
    for partition in range(3):
        consume_load(mock_cluster.bootstrap_servers, topic, count=5_000, partition=partition)
    with pytest.raises(LoadError, match="5000 of 5001"):
        consume_load(mock_cluster.bootstrap_servers, topic, count=5_001, partition=0, stall_seconds_max=0.1)


def test_a_full_queue_waits_for_room(mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic()
    load = produce_load(
        mock_cluster.bootstrap_servers,
        topic,
        message_bytes=10,
        count=20_000,
        config={"queue.buffering.max.messages": 500},
    )
    assert consume_load(mock_cluster.bootstrap_servers, topic, count=20_000).messages == load.messages


def test_progress_grows_to_the_whole(mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic()
    sent: list[int] = []
    read: list[int] = []
    produce_load(mock_cluster.bootstrap_servers, topic, message_bytes=10, count=12_000, on_progress=sent.append)
    consume_load(mock_cluster.bootstrap_servers, topic, count=12_000, on_progress=read.append)
    assert sent == sorted(sent)
    assert sent[-1] == 12_000
    assert read == [5_000, 10_000, 12_000]


def test_a_refused_batch_is_an_error(mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic()
    mock_cluster.fail_next(ApiKey.PRODUCE, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(LoadError, match=r"10 messages not delivered: .*[Aa]uthorization"):
        produce_load(mock_cluster.bootstrap_servers, topic, message_bytes=10, count=10)


def test_a_message_the_client_refuses_is_an_error(mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic()
    with pytest.raises(LoadError, match="too large"):
        produce_load(mock_cluster.bootstrap_servers, topic, message_bytes=2_000_000, count=1)


def test_an_unknown_partition_is_an_error(mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic()
    with pytest.raises(LoadError, match="partition"):
        produce_load(mock_cluster.bootstrap_servers, topic, message_bytes=10, count=1, partition=7)


def test_an_offset_that_does_not_exist_is_an_error(mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic()
    produce_load(mock_cluster.bootstrap_servers, topic, message_bytes=10, count=5)
    config = {"auto.offset.reset": "error"}
    with pytest.raises(LoadError):
        consume_load(mock_cluster.bootstrap_servers, topic, count=1, offset=99, config=config, stall_seconds_max=2)


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
