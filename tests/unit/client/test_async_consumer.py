"""The asyncio consumer against librdkafka's mock cluster."""

import asyncio
import itertools

import pytest

from ottla.client import AsyncConsumer, Producer, TopicPartition
from ottla.client.async_consumer import INLINE_RECORDS_MAX

from .conftest import MockCluster

WAIT_MS = 20_000
GROUP_NAMES = (f"async-group-{number}" for number in itertools.count())


def filled_topic(cluster: MockCluster, count: int) -> TopicPartition:
    topic = cluster.topic()
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number)
    return TopicPartition(topic, 0)


def open_consumer(cluster: MockCluster, **options: object) -> AsyncConsumer:
    return AsyncConsumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", **options)


def test_poll_seek_and_the_rest(mock_cluster: MockCluster) -> None:
    async def scene() -> None:
        partition = filled_topic(mock_cluster, 10)
        async with open_consumer(mock_cluster, group_id=next(GROUP_NAMES)) as consumer:
            assert await consumer.partitions_for(partition.topic) == [partition]
            await consumer.assign(partition)
            assert (await consumer.poll(WAIT_MS, max_records=3))[0].offset == 0
            await consumer.seek(partition, 7)
            assert await consumer.position(partition) == 7
            assert (await consumer.poll(WAIT_MS))[0].offset == 7
            await consumer.commit({partition: 4})
            assert (await consumer.committed(partition))[partition].offset == 4  # type: ignore[union-attr]
            assert await consumer.end_offsets(partition) == {partition: 10}
            await consumer.pause(partition)
            await consumer.resume(partition)
            await consumer.seek_to_end()
            assert not await consumer.poll(10)

    asyncio.run(scene())


def test_iteration_commits_what_the_body_has_seen(mock_cluster: MockCluster) -> None:
    async def scene() -> None:
        partition = filled_topic(mock_cluster, 3 * INLINE_RECORDS_MAX)
        async with open_consumer(mock_cluster, group_id=next(GROUP_NAMES)) as consumer:
            await consumer.assign(partition)
            offsets = []
            async for record in consumer:
                offsets.append(record.offset)
                if record.offset == 2 * INLINE_RECORDS_MAX:
                    await consumer.commit()
                    break
            assert offsets == list(range(2 * INLINE_RECORDS_MAX + 1))
            committed = (await consumer.committed(partition))[partition]
            assert committed is not None
            assert committed.offset == 2 * INLINE_RECORDS_MAX + 1

    asyncio.run(scene())


def test_iteration_lets_other_tasks_run(mock_cluster: MockCluster) -> None:
    async def scene() -> None:
        partition = filled_topic(mock_cluster, 3 * INLINE_RECORDS_MAX)
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with open_consumer(mock_cluster) as consumer:
            await consumer.assign(partition)
            await consumer.poll(WAIT_MS, max_records=1)
            task = asyncio.create_task(other())
            async for record in consumer:
                if record.offset == 3 * INLINE_RECORDS_MAX - 1:
                    break
            task.cancel()
        assert turns > 1

    asyncio.run(scene())


def test_a_cancelled_poll_loses_nothing(mock_cluster: MockCluster) -> None:
    async def scene() -> None:
        partition = filled_topic(mock_cluster, 5)
        async with open_consumer(mock_cluster, group_id=next(GROUP_NAMES)) as consumer:
            await consumer.assign(partition)
            for _ in range(3):
                polling = asyncio.create_task(consumer.poll(WAIT_MS))
                await asyncio.sleep(0)  # it is under way, in the consumer's thread
                polling.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await polling
            await consumer.commit()
            committed = (await consumer.committed(partition))[partition]
            assert committed is None or committed.offset == 0
            offsets: list[int] = []
            while len(offsets) < 5:
                offsets.extend(record.offset for record in await consumer.poll(WAIT_MS))
            assert offsets == [0, 1, 2, 3, 4]

    asyncio.run(scene())


def test_a_group(mock_cluster: MockCluster) -> None:
    async def scene() -> None:
        partition = filled_topic(mock_cluster, 1)
        assigned: list[TopicPartition] = []
        async with open_consumer(mock_cluster, group_id=next(GROUP_NAMES)) as consumer:
            await consumer.subscribe([partition.topic], on_assign=assigned.extend)
            assert (await consumer.poll(WAIT_MS))[0].value == b"0"
            assert assigned == await consumer.assignment() == [partition]
            await consumer.unsubscribe()
        assert [record async for record in consumer] == []

    asyncio.run(scene())
