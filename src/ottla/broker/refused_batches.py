"""Batches of idempotent producers that were refused a moment ago, so that those in flight behind them do not overtake them.

A producer sends up to five batches at a time. If the first is refused because this broker does not lead the partition, or
has too few in-sync replicas for it, and that changes before the second arrives, a log that does not know the producer
would take in the second: a first sequence of any number is accepted there. The first could never follow, which ends a
client of librdkafka for good. So such a batch is out of order, as it is where the log knows the producer, and both come
again in their order. What comes much later was not in flight, and is left to the rules of the log.
"""

import asyncio
from typing import Final, NamedTuple

from ottla.base.clock import Clock
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import ProducerId
from ottla.log.partition_log import AppendResult
from ottla.replica.partition import Partition
from ottla.wire.batch import HEADER_BYTES, producer_of
from ottla.wire.hot import TopicKey

REMEMBERED_SECONDS: Final = 30.0  # As long as clients wait for an answer unless told otherwise.
REFUSALS_MAX: Final = 10_000  # The oldest go.
_REPEATED: Final = frozenset(
    (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )
)
"""With these a client sends the batch again. One refused for what it holds is given up, and some clients leave a gap."""


class _Refusal(NamedTuple):
    epoch: int
    sequence: int
    at_seconds: float


class RefusedBatches:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.refusals: dict[tuple[TopicKey, int, ProducerId], _Refusal] = {}  # The oldest first.

    def note(self, topic: TopicKey, index: int, batch: memoryview | None, code: ErrorCode) -> None:
        """Of several that were refused the lowest sequence counts, from its last refusal on."""
        if batch is None or len(batch) < HEADER_BYTES or code not in _REPEATED:
            return
        producer_id, epoch, sequence = producer_of(batch)
        if producer_id < 0:
            return
        self._forget_old()
        key = (topic, index, producer_id)
        before = self.refusals.get(key)
        if before is not None and before.epoch == epoch and before.sequence < sequence:
            return
        self.refusals.pop(key, None)
        self.refusals[key] = _Refusal(epoch, sequence, self._clock.monotonic())
        if len(self.refusals) > REFUSALS_MAX:
            del self.refusals[next(iter(self.refusals))]

    def note_if_refused(
        self, append: "asyncio.Task[AppendResult]", topic: TopicKey, index: int, batch: memoryview
    ) -> None:
        """Of a batch that waits for its turn; its bytes may be gone when that is over."""
        header = memoryview(bytes(batch[:HEADER_BYTES]))

        def note(done: "asyncio.Task[AppendResult]") -> None:
            error = None if done.cancelled() else done.exception()
            if isinstance(error, ApiError):
                self.note(topic, index, header, error.code)

        append.add_done_callback(note)

    def check(self, topic: TopicKey, index: int, batch: memoryview, partition: Partition) -> None:
        """Right before a batch takes its place in the order of appends: `ApiError` if one before it was refused."""
        if len(batch) < HEADER_BYTES:
            return
        self._forget_old()
        producer_id, epoch, sequence = producer_of(batch)
        key = (topic, index, producer_id)
        refusal = self.refusals.get(key)
        if refusal is None or refusal.epoch != epoch:
            return
        if sequence <= refusal.sequence:
            del self.refusals[key]
        elif producer_id not in partition.log.producer_state.producers:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} sent sequence {sequence}, but {refusal.sequence} was refused and comes first",
            )

    def _forget_old(self) -> None:
        since = self._clock.monotonic() - REMEMBERED_SECONDS
        while self.refusals:
            oldest = next(iter(self.refusals))
            if self.refusals[oldest].at_seconds > since:
                return
            del self.refusals[oldest]
