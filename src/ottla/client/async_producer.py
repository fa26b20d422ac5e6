"""`Producer` for asyncio: the same options, the same calls, nothing blocks the loop.

A bridge over `Producer` rather than librdkafka's own asyncio wrapper, which takes no headers. `await send(...)` waits
for room in the buffer and returns a future; awaiting that waits for the acknowledgement. Settled records cross from
the poll thread to the loop many at a time. Made and used within one running loop.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final, Self

from ottla.client.delivery import Delivery
from ottla.client.errors import BufferFull, ClientError
from ottla.client.partitioners import Partitioner
from ottla.client.producer import Producer
from ottla.client.records import Headers, Offsets, RecordMetadata
from ottla.client.serializers import Serializer, to_bytes
from ottla.client.transactions import GroupMetadata

ROOM_CHECK_S: Final = 0.005


class AsyncProducer:
    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        *,
        key_serializer: Serializer = to_bytes,
        value_serializer: Serializer = to_bytes,
        partitioner: Partitioner | str | None = None,
        **options: object,
    ) -> None:
        self._crossing = Crossing(asyncio.get_running_loop())
        self._producer = Producer(
            config,
            key_serializer=key_serializer,
            value_serializer=value_serializer,
            partitioner=partitioner,
            **options,
        )

    async def send(
        self,
        topic: str,
        value: object = None,
        key: object = None,
        *,
        partition: int | Partitioner | None = None,
        headers: Headers | None = None,
        timestamp_ms: int | None = None,
        acks: int | str | None = None,
        min_insync_replicas: int | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Queues a record, waiting for room up to `max.block.ms`; `await` what it returns for the acknowledgement."""
        if not self._producer.is_prepared(topic, partition, acks, min_insync_replicas):
            await asyncio.to_thread(self._producer.prepare, topic, partition, acks, min_insync_replicas)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[RecordMetadata] = loop.create_future()
        delivery = Delivery(partial(self._crossing.settle, future))
        deadline = loop.time() + self._producer.max_block_s
        while True:
            try:
                self._producer.queue(topic, value, key, partition, headers, timestamp_ms, acks, delivery, wait=False)
                return future
            except BufferFull:
                if loop.time() >= deadline:
                    raise
                await asyncio.sleep(ROOM_CHECK_S)

    produce = send

    async def send_and_wait(
        self, topic: str, value: object = None, key: object = None, **named: object
    ) -> RecordMetadata:
        """`send`, acknowledged. One record at a time is one round trip at a time: for many, `send` and gather."""
        return await (await self.send(topic, value, key, **named))  # type: ignore[arg-type]

    async def partitions_for(self, topic: str) -> list[int]:
        return await asyncio.to_thread(self._producer.partitions_for, topic)

    async def flush(self, timeout_s: float | None = None) -> None:
        await asyncio.to_thread(self._producer.flush, timeout_s)

    async def close(self, timeout_s: float | None = None) -> None:
        await asyncio.to_thread(self._producer.close, timeout_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def init_transactions(self, timeout_s: float | None = None) -> None:
        await asyncio.to_thread(self._producer.init_transactions, timeout_s)

    async def begin_transaction(self) -> None:
        await asyncio.to_thread(self._producer.begin_transaction)

    async def send_offsets_to_transaction(self, offsets: Offsets, group: GroupMetadata | None = None) -> None:
        await asyncio.to_thread(self._producer.send_offsets_to_transaction, offsets, group)

    async def commit_transaction(self, timeout_s: float | None = None) -> None:
        await asyncio.to_thread(self._producer.commit_transaction, timeout_s)

    async def abort_transaction(self, timeout_s: float | None = None) -> None:
        await asyncio.to_thread(self._producer.abort_transaction, timeout_s)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """Commits at the end of the block, aborts when it raises or is cancelled."""
        await self.begin_transaction()
        try:
            yield self
            await self.commit_transaction()
        except BaseException:
            await asyncio.to_thread(self._producer.abort_after_failure)
            raise


class Crossing:
    """Carries settled records from the poll thread to the loop, one wake-up for as many as have gathered."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._settled: list[tuple[asyncio.Future[RecordMetadata], RecordMetadata | None, ClientError | None]] = []

    def settle(
        self, future: asyncio.Future[RecordMetadata], metadata: RecordMetadata | None, error: ClientError | None
    ) -> None:
        with self._lock:
            self._settled.append((future, metadata, error))
            is_first = len(self._settled) == 1
        if is_first:
            with suppress(RuntimeError):  # The loop is closed: nobody is left to tell.
                self._loop.call_soon_threadsafe(self._arrive)

    def _arrive(self) -> None:
        with self._lock:
            settled, self._settled = self._settled, []
        for future, metadata, error in settled:
            if future.done():  # cancelled by its owner
                continue
            if error is not None:
                future.set_exception(error)
            elif metadata is not None:
                future.set_result(metadata)
