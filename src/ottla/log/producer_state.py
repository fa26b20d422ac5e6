"""What a partition knows of its idempotent and transactional producers: the sequence rules (KIP-98, KIP-360).

Per producer id: its epoch and its last five batches, so that a retry of any request in flight is recognised. A client's
batch is `check`ed before it is written and `update`d into the state after; replicas and recovery only update. A first
sequence of any number is accepted from a producer without state (its records may have been deleted by retention).
Transactions: an open one holds back `first_undecided_offset` until its marker is appended.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NO_EPOCH, NO_OFFSET, NO_SEQUENCE, NO_TIMESTAMP, Offset, ProducerId, TimestampMs
from ottla.wire.batch import SEQUENCE_MAX

BATCHES_KEPT: Final = 5  # As many as an idempotent producer may have in flight.


class ProducerBatch(NamedTuple):
    base_sequence: int
    last_sequence: int
    base_offset: Offset
    last_offset: Offset
    timestamp: TimestampMs


class CompletedTransaction(NamedTuple):
    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset  # Of the marker.
    is_aborted: bool


class Producer:
    """One producer id. `batches` is empty after a marker or a restart without any: then 0 must come next."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "transaction_first_offset")

    def __init__(
        self,
        epoch: int = NO_EPOCH,
        *,
        coordinator_epoch: int = NO_EPOCH,
        last_timestamp: TimestampMs = NO_TIMESTAMP,
        transaction_first_offset: Offset = NO_OFFSET,
        batches: Iterable[ProducerBatch] = (),
    ) -> None:
        self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.transaction_first_offset = transaction_first_offset
        self.batches = list(batches)

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def raise_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()

    def __repr__(self) -> str:
        return f"Producer(epoch={self.epoch}, batches={self.batches}, transaction={self.transaction_first_offset})"


class ProducerState:
    __slots__ = ("_open_transactions", "_unreplicated_transactions", "producers")

    def __init__(self) -> None:
        self.producers: dict[ProducerId, Producer] = {}
        # First offset -> producer id. Transactions begin in log order, so the first key is the smallest.
        self._open_transactions: dict[Offset, ProducerId] = {}
        self._unreplicated_transactions: list[CompletedTransaction] = []

    def load(self, producer_id: ProducerId, producer: Producer) -> None:
        """Puts back what a snapshot held."""
        self.producers[producer_id] = producer
        if producer.transaction_first_offset >= 0:
            self._open_transactions[producer.transaction_first_offset] = producer_id
            self._open_transactions = dict(sorted(self._open_transactions.items()))

    def check(
        self, producer_id: ProducerId, epoch: int, base_sequence: int, last_sequence: int, is_transactional: bool
    ) -> ProducerBatch | None:
        """The rules for a client's batch: `None` to append it, the batch it repeats, or an `ApiError`."""
        producer = self.producers.get(producer_id)
        if producer is None:
            return None
        batches = producer.batches
        if epoch == producer.epoch:
            expected = (batches[-1][1] + 1) & SEQUENCE_MAX if batches else 0
            if base_sequence != expected:
                for batch in batches:
                    if batch[0] == base_sequence and batch[1] == last_sequence:
                        return batch
                raise _out_of_order(producer_id, base_sequence, expected)
        elif epoch < producer.epoch:
            raise _old_epoch(producer_id, epoch, producer.epoch)
        elif base_sequence != 0:
            raise _out_of_order(producer_id, base_sequence, 0)
        if producer.transaction_first_offset >= 0 and not is_transactional:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE, f"producer {producer_id} has a transaction open and wrote outside it"
            )
        return None

    def check_epoch(self, producer_id: ProducerId, epoch: int) -> None:
        """What holds for coordinators, who write without sequences: only the fencing."""
        producer = self.producers.get(producer_id)
        if producer is not None and epoch < producer.epoch:
            raise _old_epoch(producer_id, epoch, producer.epoch)

    def update(self, producer_id: ProducerId, epoch: int, batch: ProducerBatch, is_transactional: bool = False) -> None:
        """A data batch was appended."""
        producer = self.producers.get(producer_id)
        if producer is None:
            producer = self.producers[producer_id] = Producer(epoch)
        elif epoch != producer.epoch:
            producer.raise_epoch(epoch)
        batches = producer.batches
        if len(batches) == BATCHES_KEPT:
            del batches[0]
        batches.append(batch)
        producer.last_timestamp = batch[4]
        if is_transactional and producer.transaction_first_offset < 0:
            producer.transaction_first_offset = batch[2]
            self._open_transactions[batch[2]] = producer_id

    # Transactions

    def complete(
        self,
        producer_id: ProducerId,
        epoch: int,
        *,
        coordinator_epoch: int,
        offset: Offset,
        timestamp: TimestampMs,
        is_aborted: bool,
    ) -> CompletedTransaction | None:
        """A marker was appended at `offset`. `None` where it ends nothing: the transaction wrote nothing here."""
        producer = self.producers.setdefault(producer_id, Producer(epoch))
        producer.raise_epoch(epoch)
        producer.coordinator_epoch = coordinator_epoch
        producer.last_timestamp = timestamp
        first_offset, producer.transaction_first_offset = producer.transaction_first_offset, NO_OFFSET
        if first_offset < 0:
            return None
        self._open_transactions.pop(first_offset, None)
        completed = CompletedTransaction(producer_id, first_offset, offset, is_aborted)
        self._unreplicated_transactions.append(completed)
        return completed

    def check_marker(
        self, producer_id: ProducerId, epoch: int, *, coordinator_epoch: int, is_epoch_raised: bool
    ) -> bool:
        """Whether the marker ends anything or fences anybody; `False` if it is one that came before. `ApiError` from a
        coordinator or of an epoch that others took over from."""
        producer = self.producers.get(producer_id)
        if producer is None:
            return True
        if coordinator_epoch < producer.coordinator_epoch:
            raise ApiError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {producer.coordinator_epoch} has taken over from {coordinator_epoch}",
            )
        is_open = producer.transaction_first_offset >= 0
        if epoch < producer.epoch or (is_epoch_raised and is_open and epoch == producer.epoch):
            raise _old_epoch(producer_id, epoch, producer.epoch)
        return is_open or epoch > producer.epoch or not is_epoch_raised

    @property
    def first_undecided_offset(self) -> Offset | None:
        return next(iter(self._open_transactions), None)

    def first_unstable_offset(self, high_watermark: Offset) -> Offset | None:
        """The first offset readers of committed data may not pass: undecided, or decided by a marker not replicated."""
        if not self._open_transactions and not self._unreplicated_transactions:
            return None
        self._unreplicated_transactions = [
            completed for completed in self._unreplicated_transactions if completed.last_offset >= high_watermark
        ]
        unstable = [completed.first_offset for completed in self._unreplicated_transactions]
        if self._open_transactions:
            unstable.append(next(iter(self._open_transactions)))
        return min(unstable, default=None)

    def last_stable_after(self, completed: CompletedTransaction) -> Offset:
        """What the marker of `completed` makes stable: up to the next open transaction, or the marker itself."""
        undecided = self.first_undecided_offset
        return completed.last_offset + 1 if undecided is None else undecided

    # Expiry

    def expire(self, now_ms: TimestampMs, expiration_ms: int) -> list[ProducerId]:
        """Forgets producers that were silent for too long and returns their ids."""
        expired = [
            producer_id
            for producer_id, producer in self.producers.items()
            if producer.transaction_first_offset < 0 and now_ms - producer.last_timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self.producers[producer_id]
        return expired


def _out_of_order(producer_id: ProducerId, base_sequence: int, expected: int) -> ApiError:
    return ApiError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {producer_id} sent sequence {base_sequence} where {expected} comes next",
    )


def _old_epoch(producer_id: ProducerId, epoch: int, current: int) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_PRODUCER_EPOCH, f"producer {producer_id} has epoch {epoch}, epoch {current} has taken over"
    )
