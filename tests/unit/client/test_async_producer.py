"""The asyncio producer against librdkafka's mock cluster."""

import asyncio

import pytest

from ottla.client import AsyncProducer, ClientError, ConfigError, Consumer, RoundRobin
from ottla.client.errors import BufferFull

from .conftest import MockCluster

PRODUCE = 0
NOWHERE = "127.0.0.1:1"


def test_send_then_await_the_acknowledgement(mock_cluster: MockCluster) -> None:
    async def scene() -> None:
        topic = mock_cluster.topic()
        async with AsyncProducer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer:
            sent = [await producer.send(topic, str(number), headers={"n": "1"}) for number in range(500)]
            acknowledged = await asyncio.gather(*sent)
            assert [metadata.offset for metadata in acknowledged] == list(range(500))
            assert (await producer.send_and_wait(topic, "x", acks=1)).offset == 500

    asyncio.run(scene())


def test_a_partitioner_asks_for_partitions_without_blocking_the_loop(mock_cluster: MockCluster) -> None:
    async def scene() -> None:
        topic = mock_cluster.topic(partitions=3)
        async with AsyncProducer(
            bootstrap_servers=mock_cluster.bootstrap_servers, partitioner=RoundRobin()
        ) as producer:
            sent = [await producer.send(topic, "x") for _ in range(6)]
            assert [(await one).partition for one in sent] == [0, 1, 2, 0, 1, 2]
            assert await producer.partitions_for(topic) == [0, 1, 2]

    asyncio.run(scene())


def test_a_refused_record_is_an_error_where_it_is_awaited(mock_cluster: MockCluster) -> None:
    async def scene() -> None:
        topic = mock_cluster.topic()
        async with AsyncProducer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer:
            mock_cluster.fail_next(PRODUCE, 10)
            with pytest.raises(ClientError, match="MESSAGE_TOO_LARGE"):
                await producer.send_and_wait(topic, "x")
            with pytest.raises(ConfigError, match="acks='all' alone"):
                await producer.send(topic, "x", acks=0, min_insync_replicas=2)

    asyncio.run(scene())


def test_a_full_buffer_lets_the_loop_run_while_it_waits(mock_cluster: MockCluster) -> None:
    async def scene() -> None:
        topic = mock_cluster.topic()
        async with AsyncProducer(bootstrap_servers=mock_cluster.bootstrap_servers, buffer_memory=10_240) as producer:
            sent = [await producer.send(topic, b"x" * 1_000) for _ in range(100)]
            assert [(await one).offset for one in sent] == list(range(100))
        stuck = AsyncProducer(bootstrap_servers=NOWHERE, buffer_memory=2_048, max_block_ms=50)
        first = await stuck.send("t", b"x" * 1_500)
        with pytest.raises(BufferFull):
            await stuck.send("t", b"x" * 1_500)
        await stuck.close(timeout_s=0)
        with pytest.raises(ClientError, match="_PURGE_QUEUE"):
            await first

    asyncio.run(scene())


def test_a_cancelled_wait_leaves_the_others_alone(mock_cluster: MockCluster) -> None:
    async def scene() -> None:
        topic = mock_cluster.topic()
        async with AsyncProducer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer:
            first, second = await producer.send(topic, "a"), await producer.send(topic, "b")
            first.cancel()
            assert (await second).offset == 1

    asyncio.run(scene())


def test_a_transaction_as_a_block(mock_cluster: MockCluster) -> None:
    async def scene() -> None:
        topic = mock_cluster.topic()
        async with AsyncProducer(
            bootstrap_servers=mock_cluster.bootstrap_servers, transactional_id="async"
        ) as producer:
            async with producer.transaction():
                sent = await producer.send(topic, "x")
            assert (await sent).topic == topic
            with pytest.raises(ZeroDivisionError):
                async with producer.transaction():
                    raise ZeroDivisionError
        with Consumer(bootstrap_servers=mock_cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([(topic, 0)])
            assert consumer.poll(20_000)[0].value == b"x"

    asyncio.run(scene())


def test_it_is_made_within_a_loop(mock_cluster: MockCluster) -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        AsyncProducer(bootstrap_servers=mock_cluster.bootstrap_servers)
