"""`Consumer` for asyncio: the same options, the same calls, nothing blocks the loop.

All calls run one after another in a thread of the consumer's own, so a commit never overtakes the poll before it.
A poll that is cancelled (by `asyncio.timeout`, say) loses nothing: what it had read is read again by the next one.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Final, ParamSpec, Self, TypeVar

from ottla.base.types import TopicPartition
from ottla.client.consumer import ITERATION_POLL_MS, POLL_DEFAULT_MS, Consumer
from ottla.client.errors import ClientError
from ottla.client.records import ConsumerRecord, ConsumerRecords, OffsetAndMetadata, Offsets, Partitions
from ottla.client.serializers import Deserializer
from ottla.client.subscriptions import RebalanceListener, Topics

P = ParamSpec("P")
T = TypeVar("T")

POLL_SLICE_MS: Final = 200.0  # Longest that another call waits behind a poll that was cancelled.
INLINE_RECORDS_MAX: Final = 100  # Taken on the loop itself before others get their turn.


class AsyncConsumer:
    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        *,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        **options: object,
    ) -> None:
        self._consumer = Consumer(
            config, key_deserializer=key_deserializer, value_deserializer=value_deserializer, **options
        )
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ottla-consumer")
        self._jobs: set[Future[object]] = set()
        self._inline_left = INLINE_RECORDS_MAX
        self._closed = False

    async def poll(
        self, timeout_ms: float | timedelta = POLL_DEFAULT_MS, max_records: int | None = None
    ) -> ConsumerRecords:
        """What is there, at most `max_records` (`max.poll.records`); waits only while there is nothing."""
        given_ms = timeout_ms / timedelta(milliseconds=1) if isinstance(timeout_ms, timedelta) else timeout_ms
        loop = asyncio.get_running_loop()
        deadline = loop.time() + given_ms / 1000
        while True:
            left_ms = (deadline - loop.time()) * 1000
            records = await self._poll_slice(max(0.0, min(POLL_SLICE_MS, left_ms)), max_records)
            if records or left_ms <= 0:
                return records

    async def _poll_slice(self, timeout_ms: float, max_records: int | None) -> ConsumerRecords:
        reading = self._start(self._consumer.poll, timeout_ms, max_records)
        try:
            return await asyncio.wrap_future(reading)
        except asyncio.CancelledError:
            self._start(give_back, self._consumer, reading)
            raise

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Endless, one record at a time, so that `commit()` in the loop's body covers what the body has seen."""
        return self

    async def __anext__(self) -> ConsumerRecord:
        while not self._closed:
            records = self._fetched_already() or await self.poll(ITERATION_POLL_MS, max_records=1)
            if records:
                return records[0]
        raise StopAsyncIteration

    def _fetched_already(self) -> ConsumerRecords | None:
        """A record that needs no waiting, taken without a detour through the thread while that is idle."""
        self._inline_left -= 1
        if self._jobs or self._inline_left <= 0:
            self._inline_left = INLINE_RECORDS_MAX
            return None
        return self._consumer.poll(0, max_records=1)

    async def subscribe(
        self,
        topics: Topics,
        *,
        on_assign: RebalanceListener | None = None,
        on_revoke: RebalanceListener | None = None,
        on_lost: RebalanceListener | None = None,
    ) -> None:
        """The listeners are plain functions and run in the consumer's thread."""
        subscribe = partial(self._consumer.subscribe, on_assign=on_assign, on_revoke=on_revoke, on_lost=on_lost)
        await self._run(subscribe, topics)

    async def unsubscribe(self) -> None:
        await self._run(self._consumer.unsubscribe)

    async def assign(self, partitions: Partitions) -> None:
        await self._run(self._consumer.assign, partitions)

    async def assignment(self) -> list[TopicPartition]:
        return await self._run(self._consumer.assignment)

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        return await self._run(self._consumer.partitions_for, topic)

    async def seek(self, partition: TopicPartition, offset: int) -> None:
        await self._run(self._consumer.seek, partition, offset)

    async def seek_to_beginning(self, partitions: Partitions | None = None) -> None:
        await self._run(self._consumer.seek_to_beginning, partitions)

    async def seek_to_end(self, partitions: Partitions | None = None) -> None:
        await self._run(self._consumer.seek_to_end, partitions)

    async def position(self, partition: TopicPartition) -> int:
        return await self._run(self._consumer.position, partition)

    async def beginning_offsets(self, partitions: Partitions) -> dict[TopicPartition, int]:
        return await self._run(self._consumer.beginning_offsets, partitions)

    async def end_offsets(self, partitions: Partitions) -> dict[TopicPartition, int]:
        return await self._run(self._consumer.end_offsets, partitions)

    async def offsets_for_times(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return await self._run(self._consumer.offsets_for_times, timestamps_ms)

    async def commit(
        self, offsets: Offsets | None = None, *, asynchronous: bool = False, timeout_s: float | None = None
    ) -> None:
        await self._run(partial(self._consumer.commit, asynchronous=asynchronous, timeout_s=timeout_s), offsets)

    async def committed(self, partitions: Partitions) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return await self._run(self._consumer.committed, partitions)

    async def pause(self, partitions: Partitions) -> None:
        await self._run(self._consumer.pause, partitions)

    async def resume(self, partitions: Partitions) -> None:
        await self._run(self._consumer.resume, partitions)

    def group_metadata(self) -> object:
        return self._consumer.group_metadata()

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await self._run(self._consumer.close)
            self._thread.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.wrap_future(self._start(function, *args, **kwargs))

    def _start(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        job = self._thread.submit(function, *args, **kwargs)
        self._jobs.add(job)  # type: ignore[arg-type]  # a set of futures of anything
        job.add_done_callback(self._jobs.discard)
        return job


def give_back(consumer: Consumer, reading: Future[ConsumerRecords]) -> None:
    """Runs after `reading`, in the same thread: nobody got its records, so the next poll has to return them."""
    if reading.cancelled() or reading.exception() is not None:
        return
    try:
        consumer.go_back(record[:3] for record in reading.result())
    except ClientError:
        return  # The partitions were revoked meanwhile: their new owner reads from the committed offset.
