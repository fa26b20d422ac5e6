"""Record batches to the leaders of their partitions: each exactly once, in order, whatever becomes of the leaders.

Every batch gets its sequence number when it is queued and keeps it; so a batch whose answer was lost can be sent again,
and a broker that has it already says so. A request holds one batch of each partition, for all partitions of a leader.
One request is under way to each leader while the caller prepares the next: order then needs no further thought.

`send` queues, `flush` returns when everything is acknowledged. Connections are the caller's, to be used by one sender
after another and for nothing else. What passes by itself (a leader that moves, a broker that restarts) is tried again
until nothing was acknowledged for `delivery_timeout_s`, whatever was tried.
"""

import time
from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple
from uuid import UUID

from ottla.base.errors import ErrorCode
from ottla.base.types import TopicPartition
from ottla.client.errors import ClientError, coded_error
from ottla.client.raw.address import Address
from ottla.client.raw.connection import NO_CONNECTION, Connection
from ottla.client.raw.patience import RETRY_SECONDS
from ottla.client.raw.security import PLAINTEXT, Security
from ottla.client.raw.topic_leaders import TopicLeaders
from ottla.client.raw.transactions import ProducerIdentity
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.batch import sequence_after, set_producer

REQUEST_BYTES: Final = 4 << 20
"""Queued bytes that make a request; less goes only with `flush`. A request may be larger by one batch."""

ACKS_ALL: Final = -1

_PASSING: Final = frozenset(
    {
        NO_CONNECTION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER.name,
        ErrorCode.LEADER_NOT_AVAILABLE.name,
        ErrorCode.FENCED_LEADER_EPOCH.name,
        ErrorCode.UNKNOWN_LEADER_EPOCH.name,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name,
        ErrorCode.UNKNOWN_TOPIC_ID.name,
        ErrorCode.KAFKA_STORAGE_ERROR.name,
        ErrorCode.NOT_ENOUGH_REPLICAS.name,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND.name,
        ErrorCode.REQUEST_TIMED_OUT.name,
        ErrorCode.NETWORK_EXCEPTION.name,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.name,
        ErrorCode.COORDINATOR_NOT_AVAILABLE.name,
        ErrorCode.NOT_COORDINATOR.name,
        ErrorCode.CONCURRENT_TRANSACTIONS.name,
    }
)

BatchBytes = bytearray | memoryview
Batches = dict[TopicPartition, BatchBytes]


class _Request(NamedTuple):
    """Under way, unanswered."""

    connection: Connection
    version: int
    batches: Batches
    names: dict[UUID, str]
    """Newer answers have topics by id alone."""


class BatchSender:
    def __init__(
        self,
        leaders: TopicLeaders,
        connections: dict[Address, Connection],
        identity: ProducerIdentity,
        *,
        transactional_id: str | None = None,
        client_id: str,
        request_timeout_s: float,
        delivery_timeout_s: float,
        security: Security = PLAINTEXT,
    ) -> None:
        self._leaders = leaders
        self._connections = connections
        self._identity = identity
        self._transactional_id = transactional_id
        self._client_id = client_id
        self._request_timeout_s = request_timeout_s
        self._delivery_timeout_s = delivery_timeout_s
        self._security = security
        self._sequences: dict[TopicPartition, int] = {}
        self._queues: dict[TopicPartition, deque[BatchBytes]] = {}
        self._queued_bytes = 0
        self._under_way: dict[Address, _Request] = {}
        self._failing_since: float | None = None

    def abandon(self) -> None:
        """Nothing more is sent. Connections that owe an answer are of no use to others."""
        for address in self._under_way:
            self._connections.pop(address).close()
        self._under_way.clear()
        self._queues.clear()

    # -- queueing ----------------------------------------------------------------------------------------------------

    def send(self, partition: TopicPartition, batch: BatchBytes, record_count: int) -> None:
        sequence = self._sequences.get(partition, 0)
        set_producer(
            batch,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            base_sequence=sequence,
            is_transactional=self._transactional_id is not None,
        )
        self._sequences[partition] = sequence_after(sequence, record_count)
        self._queues.setdefault(partition, deque()).append(batch)
        self._queued_bytes += len(batch)
        while self._queued_bytes >= REQUEST_BYTES:
            self._turn()

    def flush(self) -> None:
        while self._queues or self._under_way:
            self._turn()

    def _turn(self) -> None:
        """Every leader that can take a request gets one; the oldest is waited for if none can."""
        waiting = self._by_leader()
        free = [address for address in waiting if address not in self._under_way]
        for address in free:
            self._start(address, waiting[address])
        if not free and self._under_way:
            self._finish(next(iter(self._under_way)))

    def _by_leader(self) -> dict[Address, list[TopicPartition]]:
        waiting: dict[Address, list[TopicPartition]] = {}
        busy = {partition for request in self._under_way.values() for partition in request.batches}
        for partition in self._queues:
            leader = self._leaders.leader(partition)
            if leader is not None and partition not in busy:
                waiting.setdefault(leader, []).append(partition)
        if not waiting and not self._under_way:
            self._failed(coded_error(ErrorCode.LEADER_NOT_AVAILABLE, f"producing to {next(iter(self._queues))}"))
        return waiting

    # -- requests ----------------------------------------------------------------------------------------------------

    def _start(self, address: Address, partitions: Iterable[TopicPartition]) -> None:
        batches: Batches = {}
        size_bytes = 0
        for partition in partitions:
            if size_bytes >= REQUEST_BYTES:
                break
            batches[partition] = self._take(partition)
            size_bytes += len(batches[partition])
        try:
            connection = self._connection(address)
            version = connection.send(ApiKey.PRODUCE, self._request(batches))
        except ClientError as error:
            self._connection_failed(address, batches, error)
        else:
            names = {self._leaders.topic_id(partition.topic): partition.topic for partition in batches}
            self._under_way[address] = _Request(connection, version, batches, names)

    def _finish(self, address: Address) -> None:
        request = self._under_way.pop(address)
        try:
            answer = request.connection.receive(ApiKey.PRODUCE, request.version, api.ProduceResponse)
        except ClientError as error:
            self._connection_failed(address, request.batches, error)
            return
        passing: ClientError | None = None
        for topic in answer.responses:
            for one in topic.partition_responses:
                partition = TopicPartition(topic.name or request.names[topic.topic_id], one.index)
                failure = self._outcome(partition, one)
                if failure is not None:
                    self._put_back(partition, request.batches[partition])
                    passing = failure
        if passing is not None:
            self._failed(passing)

    def _outcome(
        self, partition: TopicPartition, answer: api.ProduceResponse.PartitionProduceResponse
    ) -> ClientError | None:
        """None for what is written, the error for what may still be; any other is raised."""
        if answer.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._failing_since = None
            return None
        error = coded_error(answer.error_code, f"producing to {partition}", answer.error_message)
        if error.code not in _PASSING:
            raise error
        return error

    def _request(self, batches: Batches) -> api.ProduceRequest:
        topics: dict[str, list[api.ProduceRequest.PartitionProduceData]] = {}
        for partition, batch in batches.items():
            data = api.ProduceRequest.PartitionProduceData(index=partition.partition, records=batch)
            topics.setdefault(partition.topic, []).append(data)
        return api.ProduceRequest(
            transactional_id=self._transactional_id,
            acks=ACKS_ALL,
            timeout_ms=int(self._request_timeout_s * 1000),
            topic_data=[
                api.ProduceRequest.TopicProduceData(
                    name=topic, topic_id=self._leaders.topic_id(topic), partition_data=partitions
                )
                for topic, partitions in topics.items()
            ],
        )

    def _connection(self, address: Address) -> Connection:
        if address not in self._connections:
            self._connections[address] = Connection(
                address, client_id=self._client_id, timeout_s=self._request_timeout_s, security=self._security
            )
        return self._connections[address]

    # -- failures ----------------------------------------------------------------------------------------------------

    def _connection_failed(self, address: Address, batches: Batches, error: ClientError) -> None:
        """Whether the batches were written nobody knows; sent again with their sequences, they are written once."""
        if address in self._connections:
            self._connections.pop(address).close()
        for partition, batch in batches.items():
            self._put_back(partition, batch)
        self._failed(error)

    def _failed(self, error: ClientError) -> None:
        if self._failing_since is None:
            self._failing_since = time.monotonic()
        left_s = self._failing_since + self._delivery_timeout_s - time.monotonic()
        if error.code not in _PASSING or left_s <= 0:
            raise error
        time.sleep(RETRY_SECONDS)
        self._leaders.refresh({partition.topic for partition in self._queues}, timeout_s=left_s)

    def _take(self, partition: TopicPartition) -> BatchBytes:
        queue = self._queues[partition]
        batch = queue.popleft()
        self._queued_bytes -= len(batch)
        if not queue:
            del self._queues[partition]
        return batch

    def _put_back(self, partition: TopicPartition, batch: BatchBytes) -> None:
        self._queues.setdefault(partition, deque()).appendleft(batch)
        self._queued_bytes += len(batch)
