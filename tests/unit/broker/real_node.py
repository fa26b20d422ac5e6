"""A whole node over a real directory, without sockets: requests go in as frames and come back as messages."""

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from ottla.broker.dispatch import APIS, Dispatcher
from ottla.broker.node import World
from ottla.broker.request import Parts, Peer
from ottla.broker.start import AdvertisedListener, OpenNode, close_node, open_node
from ottla.log.handles import HandleCache
from ottla.log.partition_log import LogSlice
from ottla.server.real_disk import RealDisk
from ottla.server.settings import settings_of_up
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.frame import decode_response, encode_request
from ottla.wire.message import Message
from ottla.wire.records import BatchBuilder, batches, records_of
from tests.unit.coordinator.memory_coordinator import come_true
from tests.unit.fakes import FakeClock, FakeWorkers

PEER = Peer(host="127.0.0.1", port=4, listener="PLAINTEXT")


class RealNode:
    def __init__(self, opened: OpenNode, clock: FakeClock, workers: FakeWorkers) -> None:
        self.opened = opened
        self.node = opened.node
        self.clock = clock
        self.workers = workers
        self.dispatcher = Dispatcher(opened.node)

    @classmethod
    async def open(cls, path: Path, config: Mapping[str, str], clock: FakeClock | None = None) -> "RealNode":
        clock, workers = clock or FakeClock(), FakeWorkers()
        numbers = itertools.count(1000)
        world = World(
            clock=clock,
            workers=workers,
            disk=RealDisk(),
            new_uuid=lambda: UUID(int=next(numbers) << 64 | 7),
            new_session_id=lambda: next(numbers),
            chance=lambda: 0.5,
        )
        settings = settings_of_up(data=str(path), host="localhost", port=9092, overrides=config, environment={})
        listeners = [AdvertisedListener(name="PLAINTEXT", host="localhost", port=9092)]
        return cls(await open_node(world, settings, listeners, HandleCache()), clock, workers)

    async def close(self) -> None:
        await close_node(self.opened)

    async def parts(self, key: ApiKey, request: Message, version: int | None = None) -> Parts | None:
        version = APIS[key].versions[1] if version is None else version
        frame = memoryview(bytearray(encode_request(key, version, 9, "test", request)))[4:]
        context = self.dispatcher.begin(frame, PEER)
        parts = self.dispatcher.answer_at_once(context, frame)
        if parts is None:
            parts = await self.dispatcher.answer(context, frame)
        if context.committed is not None:
            await come_true(context.committed)
        return parts

    async def ask(self, key: ApiKey, request: Message, version: int | None = None) -> Any:
        version = APIS[key].versions[1] if version is None else version
        parts = await self.parts(key, request, version)
        assert parts is not None
        data = b"".join(content(part) for part in parts)
        correlation_id, message = decode_response(key, version, memoryview(data)[4:])
        assert correlation_id == 9
        return message

    async def create_topic(self, name: str, partitions: int = 1, **configs: str) -> UUID:
        topic = api.CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[
                api.CreateTopicsRequest.CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        response = await self.ask(ApiKey.CREATE_TOPICS, api.CreateTopicsRequest(topics=[topic]))
        assert response.topics[0].error_code == 0, response.topics[0].error_message
        topic_id: UUID = response.topics[0].topic_id
        return topic_id

    async def delete_topic(self, name: str) -> None:
        request = api.DeleteTopicsRequest(topics=[api.DeleteTopicsRequest.DeleteTopicState(name=name)])
        response = await self.ask(ApiKey.DELETE_TOPICS, request)
        assert response.responses[0].error_code == 0

    def batch(self, *values: bytes, **fields: Any) -> bytes:
        builder = BatchBuilder(**fields)
        for value in values:
            builder.append(self.clock.now_ms(), None, value)
        return bytes(builder.build())

    async def produce(
        self, topic: str, *values: bytes, index: int = 0, acks: int = -1, version: int = 9, **fields: Any
    ) -> Any:
        response = await self.ask(
            ApiKey.PRODUCE, produce_request(topic, self.batch(*values, **fields), index=index, acks=acks), version
        )
        return response.responses[0].partition_responses[0]


def produce_request(topic: str, records: bytes | None, *, index: int = 0, acks: int = -1, **fields: Any) -> Message:
    data = api.ProduceRequest.PartitionProduceData(index=index, records=records)
    topics = [api.ProduceRequest.TopicProduceData(name=topic, partition_data=[data])]
    return api.ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics, **fields)


def content(part: Any) -> bytes:
    if isinstance(part, LogSlice):
        assert part.file is not None
        return part.file.pread(part.size, part.position)
    return bytes(part)


def values_of(records: Any) -> list[bytes | None]:
    view = memoryview(bytes(records or b""))
    return [record.value for batch in batches(view, stop_at_partial=True) for record in records_of(batch.view)]


def play(path: Path, scene: Callable[[RealNode], Coroutine[Any, Any, None]], **config: str) -> None:
    """Runs a scene on a fresh node; configuration names with underscores for dots."""

    async def run() -> None:
        node = await RealNode.open(path, {name.replace("_", "."): value for name, value in config.items()})
        await scene(node)
        await node.close()

    asyncio.run(run())
