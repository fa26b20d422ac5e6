"""A Kafka client of a few lines: requests over one simulated connection, each answered or broken off."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from ottla.base.errors import ErrorCode
from ottla.wire import api
from ottla.wire.apis import API_INFO, ApiKey
from ottla.wire.frame import decode_response, encode_request
from ottla.wire.message import Message
from ottla.wire.records import Record, batches, check_crc, records_of
from sim.network import SimulatedSocket
from sim.node import SimulatedNode

ANSWER_SECONDS_MAX: Final = 30.0
VERSIONS: Final[Mapping[ApiKey, int]] = {
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 12,
    ApiKey.LIST_OFFSETS: 7,
    ApiKey.METADATA: 12,
    ApiKey.CREATE_TOPICS: 7,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.FIND_COORDINATOR: 6,
    ApiKey.JOIN_GROUP: 9,
    ApiKey.SYNC_GROUP: 5,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 5,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
}


class Unanswered(Exception):
    """Whether the request took effect is not known."""


class SimulatedClient:
    def __init__(
        self,
        node: SimulatedNode,
        name: str,
        versions: Mapping[ApiKey, int] = VERSIONS,
        *,
        answer_seconds_max: float = ANSWER_SECONDS_MAX,
    ) -> None:
        self._node = node
        self._versions = versions
        self._answer_seconds_max = answer_seconds_max
        self._socket: SimulatedSocket | None = None
        self._correlation_id = 0
        self.name = name

    async def request(self, api_key: ApiKey, message: Message) -> Any:
        (answer,) = await self.pipeline(api_key, [message])
        return answer

    async def pipeline(self, api_key: ApiKey, messages: Sequence[Message]) -> list[Any]:
        """Sends all, then takes the answers, which come in order. A break in between: `Unanswered`, with those so far."""
        answers: list[Any] = []
        version = self._versions[api_key]
        try:
            async with asyncio.timeout(self._answer_seconds_max):
                if self._socket is None or self._socket.closed:
                    self._socket = self._node.connect()
                first_id = self._correlation_id
                for message in messages:
                    self._socket.send(encode_request(api_key, version, self._correlation_id, self.name, message))
                    self._correlation_id += 1
                for number in range(len(messages)):
                    frame = await self._socket.receive()
                    correlation_id, answer = decode_response(api_key, version, memoryview(frame))
                    assert correlation_id == first_id + number, "answers keep the order of their requests"
                    assert isinstance(answer, API_INFO[api_key].response)
                    answers.append(answer)
        except (ConnectionError, TimeoutError) as error:
            self.close()
            raise Unanswered(answers) from error
        return answers

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def produce_request(topic: str, batch: bytes | bytearray, *, partition: int = 0, timeout_ms: int = 10_000) -> Message:
    data = api.ProduceRequest.PartitionProduceData(index=partition, records=memoryview(batch))
    return api.ProduceRequest(
        acks=-1,
        timeout_ms=timeout_ms,
        topic_data=[api.ProduceRequest.TopicProduceData(name=topic, partition_data=[data])],
    )


class Client(Protocol):
    """Of one node, or of a cluster (cluster_client.py)."""

    name: str

    async def request(self, api_key: ApiKey, message: Message) -> Any: ...

    async def pipeline(self, api_key: ApiKey, messages: Sequence[Message]) -> list[Any]: ...

    def close(self) -> None: ...


async def fetch(
    client: Client, topic: str, offset: int, *, partition: int = 0, wait_ms: int = 500
) -> tuple[list[Record], int]:
    """The records from `offset` on that fit an answer, and the high watermark."""
    wanted = api.FetchRequest.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=2_000)
    request = api.FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=100_000,
        session_id=0,
        session_epoch=-1,
        topics=[api.FetchRequest.FetchTopic(topic=topic, partitions=[wanted])],
    )
    answer = await client.request(ApiKey.FETCH, request)
    (data,) = answer.responses[0].partitions
    if data.error_code != ErrorCode.NONE:
        raise Unanswered(ErrorCode(data.error_code).name)
    records: list[Record] = []
    for batch in batches(memoryview(data.records or b""), stop_at_partial=True):
        check_crc(batch.view)
        records += [record for record in records_of(batch.view) if record.offset >= offset]
    return records, data.high_watermark
