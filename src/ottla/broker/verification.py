"""Before a partition opens a transaction its coordinator is asked, so that no transaction hangs (KIP-890).

A producer's first batch of a transaction waits for that answer, and whatever the producer sends behind it until it is
appended; what goes on with an open transaction only waits until those before it are in line, so that the order of a
connection is kept. Producers that speak transaction.version 2 do not announce their partitions:
the question adds them. Those of version 1 have announced them: the question only verifies. Questions of one turn of the
loop about one producer go out as one request.

Called by broker/handlers/produce.py and the handler of TxnOffsetCommit.
"""

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.owned_tasks import OwnedTasks
from ottla.base.types import ProducerId, TopicPartition
from ottla.coordinator.machine import ProducerIdentity
from ottla.coordinator.placement import partition_for
from ottla.log.partition_log import AppendResult
from ottla.metadata.topic_names import TRANSACTION_TOPIC
from ottla.replica.partition import Partition
from ottla.replica.transaction_guards import Guard
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.batch import HEADER_BYTES, producer_of

if TYPE_CHECKING:
    from ottla.broker.node import Node

ADD_PARTITIONS_VERSION: Final = 5


@dataclass(frozen=True, slots=True)
class TransactionalProducer:
    transactional_id: str
    identity: ProducerIdentity
    adds_partitions: bool
    """It speaks transaction.version 2, and leaves announcing its partitions to us."""


@dataclass(slots=True)
class _Question:
    partitions: list[TopicPartition] = field(default_factory=list)
    answer: "asyncio.Task[dict[TopicPartition, ErrorCode]] | None" = None


class Verification:
    def __init__(self, node: "Node") -> None:
        self._node = node
        self._tasks = OwnedTasks()
        self._questions: dict[TransactionalProducer, _Question] = {}
        # Of the last batch that had to wait, until it is appended: done once its producer's next one may take its place.
        self._last_places: dict[tuple[TopicPartition, ProducerId], asyncio.Future[None]] = {}

    async def close(self) -> None:
        """Nothing is appended after it."""
        # What a coordinator elsewhere, or one that is closed, has not answered it never may.
        await self._tasks.cancel()

    # -- appending ---------------------------------------------------------------------------------------------------

    def begin_append(
        self, partition: Partition, batch: memoryview, transactional_id: str, *, adds_partitions: bool
    ) -> "AppendResult | asyncio.Task[AppendResult]":
        """Appends a transactional batch in the order of its producer, as `Partition.begin_append` does."""
        if len(batch) < HEADER_BYTES:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{partition.topic_partition}: a batch of {len(batch)} bytes")
        producer_id, epoch, sequence = producer_of(batch)
        key = (partition.topic_partition, producer_id)
        before = self._last_places.get(key)
        if (before is None or before.done()) and partition.is_in_transaction(producer_id, epoch):
            return partition.begin_append(batch)
        producer = TransactionalProducer(transactional_id, ProducerIdentity(producer_id, epoch), adds_partitions)
        # Each epoch of version 2 is one transaction, which begins with sequence 0.
        guard = partition.guards.enter(producer_id, epoch, 0 if adds_partitions else sequence)
        place = self._last_places[key] = asyncio.get_running_loop().create_future()
        append = self._append_when_verified(before, place, partition, batch, producer, guard, sequence)
        task = self._tasks.spawn(append, name=f"verify {partition.topic_partition}")
        task.add_done_callback(lambda _: self._on_appended(key, place))
        return task

    def _on_appended(self, key: tuple[TopicPartition, ProducerId], place: "asyncio.Future[None]") -> None:
        if not place.done():
            place.set_result(None)
        if self._last_places.get(key) is place:
            del self._last_places[key]

    async def _append_when_verified(
        self,
        before: "asyncio.Future[None] | None",
        place: "asyncio.Future[None]",
        partition: Partition,
        batch: memoryview,
        producer: TransactionalProducer,
        guard: Guard,
        sequence: int,
    ) -> AppendResult:
        if before is not None:
            await asyncio.wait((before,))
        producer_id, epoch = producer.identity
        if partition.is_in_transaction(producer_id, epoch):
            # The log knows the producer, and with it the sequence that must come next: nobody needs to wait for this one.
            place.set_result(None)
        else:
            await self.verify(partition.topic_partition, producer)
            partition.guards.check(
                guard, producer_id, sequence, partition.log.producer_state.producers.get(producer_id)
            )
        result = await partition.append(batch)
        if self._last_places.get((partition.topic_partition, producer_id)) is place:
            partition.guards.leave(guard, producer_id)  # Those behind it have entered with the same one, and need it.
        return result

    # -- asking ------------------------------------------------------------------------------------------------------

    async def verify(self, partition: TopicPartition, producer: TransactionalProducer) -> None:
        """`ApiError`, in the coordinator's words, when the partition is not part of the producer's transaction."""
        if not producer.adds_partitions and not self._node.live_setting("transaction.partition.verification.enable"):
            return
        question = self._questions.get(producer)
        if question is None:
            question = self._questions[producer] = _Question()
            question.answer = self._tasks.spawn(self._ask_soon(producer), name="ask transaction coordinator")
        question.partitions.append(partition)
        assert question.answer is not None
        code = (await asyncio.shield(question.answer)).get(partition, ErrorCode.UNKNOWN_SERVER_ERROR)
        if code is not ErrorCode.NONE:
            raise ApiError(code, f"{partition}: the coordinator of {producer.transactional_id!r} answered {code.name}")

    async def _ask_soon(self, producer: TransactionalProducer) -> dict[TopicPartition, ErrorCode]:
        # A task's first step: whatever else was asked in this turn of the loop is in by now.
        question = self._questions.pop(producer)
        topic = self._node.image.topics.get(TRANSACTION_TOPIC)
        if topic is None:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "there are no transactions in this cluster")
        leader = topic.partitions[partition_for(producer.transactional_id, len(topic.partitions))].leader
        response: api.AddPartitionsToTxnResponse = await self._node.peers.ask(
            leader, ApiKey.ADD_PARTITIONS_TO_TXN, ADD_PARTITIONS_VERSION, _request(producer, question.partitions)
        )
        return {
            TopicPartition(topic_result.name, one.partition_index): ErrorCode(one.partition_error_code)
            for result in response.results_by_transaction
            for topic_result in result.topic_results
            for one in topic_result.results_by_partition
        }


def _request(producer: TransactionalProducer, partitions: list[TopicPartition]) -> api.AddPartitionsToTxnRequest:
    topics: dict[str, list[int]] = {}
    for name, index in dict.fromkeys(partitions):
        topics.setdefault(name, []).append(index)
    return api.AddPartitionsToTxnRequest(
        transactions=[
            api.AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
                transactional_id=producer.transactional_id,
                producer_id=producer.identity.producer_id,
                producer_epoch=producer.identity.epoch,
                verify_only=not producer.adds_partitions,
                topics=[
                    api.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=name, partitions=indexes)
                    for name, indexes in topics.items()
                ],
            )
        ]
    )
