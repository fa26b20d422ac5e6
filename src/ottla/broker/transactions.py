"""Transactions from decision to end: markers to the partitions' leaders, then completion; time-outs and expiry.

A coordinator's machine decides and names the ids whose markers are due, live and after loading (`on_decided`). One task
per id then waits for the decision's commit, asks every leader to write its marker, again and again until all have, and
records the completion. A partition of a deleted topic has nothing to end. What was decided is never given up while this
broker coordinates it.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar, cast

from ottla.base.errors import ApiError, ErrorCode, invariant
from ottla.base.owned_tasks import OwnedTasks
from ottla.base.types import NodeId, ProducerId, TopicPartition
from ottla.coordinator.machine import Decision
from ottla.coordinator.transactions.machine import Changed, TransactionMachine
from ottla.coordinator.transactions.requests import Needs
from ottla.coordinator.transactions.transaction import Transaction, TransactionState
from ottla.metadata.features import TRANSACTION_VERSION
from ottla.metadata.topic_names import TRANSACTION_TOPIC
from ottla.wire import api
from ottla.wire.apis import ApiKey

if TYPE_CHECKING:
    from ottla.broker.node import Node

logger = logging.getLogger(__name__)

Reply = TypeVar("Reply")

WRITE_MARKERS_VERSION: Final = 2
RETRY_SECONDS: Final = 0.02
RETRY_SECONDS_MAX: Final = 1.0

# With a newer epoch the partition has gone on: there is nothing left to end there.
_ENDED: Final = frozenset((ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH))
# Another broker coordinates now, and ends what was decided.
_NOT_OURS: Final = frozenset((ErrorCode.NOT_COORDINATOR, ErrorCode.TRANSACTION_COORDINATOR_FENCED))


class Transactions:
    def __init__(self, node: "Node") -> None:
        self._node = node
        self._tasks = OwnedTasks()
        self._finishing: dict[str, asyncio.Task[None]] = {}
        self._decided_meanwhile: dict[str, None] = {}
        self._is_closed = False

    def new_machine(self) -> TransactionMachine:
        return TransactionMachine(
            transaction_version=self.version,
            two_phase_ms_max=self._node.config.integer("ottla.transaction.prepared.max.ms"),
            on_decided=self._on_decided,
        )

    async def close(self) -> None:
        """What is decided and not finished is finished by whoever coordinates next."""
        self._is_closed = True
        await self._tasks.cancel()

    def version(self) -> int:
        """The finalized transaction.version."""
        return self._node.image.features.get(TRANSACTION_VERSION, 0)

    # -- decisions ---------------------------------------------------------------------------------------------------

    async def submit(self, transactional_id: str, decide: Callable[[TransactionMachine], Decision[Reply]]) -> Reply:
        """Runs one decision about an id on its machine, if this broker coordinates it."""
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST, "no transactional id")
        coordinators = self._node.coordinators
        index = await coordinators.wait_transaction_partition(transactional_id)
        return await coordinators.transactions.submit(index, decide)

    async def change(
        self, transactional_id: str, decide: Callable[[TransactionMachine, ProducerId | None], Changed]
    ) -> Transaction:
        """As `submit`, for a decision that may need a producer id that nobody has had."""
        changed = await self.submit(transactional_id, lambda machine: decide(machine, None))
        if changed is Needs.PRODUCER_ID:
            producer_id = await self._node.next_producer_id()
            changed = await self.submit(transactional_id, lambda machine: decide(machine, producer_id))
        invariant(isinstance(changed, Transaction), "decided with a producer id at hand", id=transactional_id)
        return cast(Transaction, changed)

    # -- from decided to complete ------------------------------------------------------------------------------------

    def _on_decided(self, transactional_id: str) -> None:
        if transactional_id in self._finishing:
            self._decided_meanwhile[transactional_id] = None
        else:
            task = self._tasks.spawn(self._finish(transactional_id), name=f"finish {transactional_id}")
            self._finishing[transactional_id] = task
            task.add_done_callback(lambda _: self._on_finished(transactional_id))

    def _on_finished(self, transactional_id: str) -> None:
        del self._finishing[transactional_id]
        if transactional_id in self._decided_meanwhile:
            del self._decided_meanwhile[transactional_id]
            self._on_decided(transactional_id)

    async def wait_finished(self, transactional_id: str) -> None:
        """Until the markers of its transaction are written, if any are due, but only for a moment."""
        task = self._finishing.get(transactional_id)
        if task is not None:
            wait_ms = self._node.config.integer("add.partitions.to.txn.retry.backoff.max.ms")
            await asyncio.wait((task,), timeout=wait_ms / 1000)

    async def _finish(self, transactional_id: str) -> None:
        pause_seconds = RETRY_SECONDS
        while not self._is_closed:
            try:
                # The answer waits for the commit of the decision: no marker tells what could still be void.
                prepared = await self.submit(transactional_id, lambda machine: machine.decided(transactional_id))
                if prepared is None or await self._complete(prepared):
                    return
                reason = "not every marker could be written"
            except ApiError as error:
                if error.code in _NOT_OURS:
                    return
                reason = str(error)
            logger.info("a transaction's end is tried again", extra={"id": transactional_id, "reason": reason})
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, RETRY_SECONDS_MAX)

    async def _complete(self, prepared: Transaction) -> bool:
        """Whether it could be. Otherwise every partition is asked again: a marker that is there does no harm twice while
        the producer can begin nothing new."""
        if not await self._are_markers_written(prepared):
            return False
        now_ms = self._node.clock.now_ms()
        await self.submit(prepared.transactional_id, lambda machine: machine.decide_completion(prepared, now_ms))
        return True

    async def _are_markers_written(self, prepared: Transaction) -> bool:
        image = self._node.image
        by_leader: dict[NodeId, list[TopicPartition]] = {}
        for partition in prepared.partitions:
            topic = image.topics.get(partition.topic)
            state = None if topic is None else topic.partitions.get(partition.partition)
            if state is not None:  # A topic that was deleted has nothing to end.
                by_leader.setdefault(state.leader, []).append(partition)
        index = self._node.coordinators.transaction_partition(prepared.transactional_id)
        coordinator_epoch = self._node.partitions.leader_of(TRANSACTION_TOPIC, index).leader_epoch
        return all(
            await asyncio.gather(
                *(
                    self._writes_markers(leader, _marker(prepared, led, coordinator_epoch))
                    for leader, led in by_leader.items()
                )
            )
        )

    async def _writes_markers(self, leader: NodeId, marker: api.WriteTxnMarkersRequest.WritableTxnMarker) -> bool:
        request = api.WriteTxnMarkersRequest(markers=[marker])
        try:
            response: api.WriteTxnMarkersResponse = await self._node.peers.ask(
                leader, ApiKey.WRITE_TXN_MARKERS, WRITE_MARKERS_VERSION, request
            )
        except ApiError as error:
            logger.info("no markers from a leader", extra={"broker": leader, "reason": str(error)})
            return False
        codes = {
            ErrorCode(partition.error_code)
            for result in response.markers
            for topic in result.topics
            for partition in topic.partitions
        }
        if ErrorCode.TRANSACTION_COORDINATOR_FENCED in codes:
            raise ApiError(ErrorCode.TRANSACTION_COORDINATOR_FENCED, "a newer coordinator has written markers")
        return codes <= _ENDED

    # -- by the clock ------------------------------------------------------------------------------------------------

    async def abort_overdue(self) -> None:
        """Aborts what is open for longer than it may be, and fences its producer."""
        for machine in self._node.coordinators.transactions.machines().values():
            for transactional_id in machine.overdue(self._node.clock.now_ms()):
                await self._abort_overdue(transactional_id)

    async def _abort_overdue(self, transactional_id: str) -> None:
        now_ms = self._node.clock.now_ms()
        try:
            await self.submit(transactional_id, lambda machine: machine.decide_timeout(transactional_id, now_ms))
            logger.info("a transaction timed out", extra={"id": transactional_id})
        except ApiError as error:  # A partition that cannot be written to holds up no other.
            logger.warning("a transaction cannot be timed out", extra={"id": transactional_id, "reason": str(error)})

    async def expire_ids(self) -> None:
        """Forgets transactional ids that nobody used for long."""
        now_ms = self._node.clock.now_ms()
        expiration_ms = self._node.config.integer("transactional.id.expiration.ms")
        runtime = self._node.coordinators.transactions
        for index in runtime.machines():
            try:
                count = await runtime.submit(index, lambda machine: machine.decide_expiry(now_ms, expiration_ms))
            except ApiError as error:
                logger.warning("transactional ids cannot expire", extra={"partition": index, "reason": str(error)})
                continue
            if count:
                logger.info("transactional ids expired", extra={"partition": index, "count": count})


def _marker(
    prepared: Transaction, partitions: list[TopicPartition], coordinator_epoch: int
) -> api.WriteTxnMarkersRequest.WritableTxnMarker:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return api.WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=prepared.producer_id,
        producer_epoch=prepared.producer_epoch,
        transaction_result=prepared.state is TransactionState.PREPARE_COMMIT,
        topics=[
            api.WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
            for name, indexes in topics.items()
        ],
        coordinator_epoch=coordinator_epoch,
        transaction_version=prepared.client_version,
    )
