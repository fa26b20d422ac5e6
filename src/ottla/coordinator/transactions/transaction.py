"""One transactional id: who may write under it, and how far its transaction has come (KIP-98).

    EMPTY ──────────> ONGOING ──> PREPARE_COMMIT ──> COMPLETE_COMMIT ─┐
      ^  <─┐             ^  └───> PREPARE_ABORT  ──> COMPLETE_ABORT ──┤
      └────┴─────────────┴────────────────────────────────────────────┘

A prepared transaction is decided: markers are on their way to its partitions and nothing changes their mind. A value, not
an object with a life: every step makes a new one, which is one record of `__transaction_state`.

Which epoch of the producer came before is not recorded by Kafka. Here `previous_producer_id` tells it: it is set only
while the one who used the epoch before is the one who uses the current one, so that its retries are answered and nobody
else's are.

Two phases (KIP-939): one that others prepare and decide upon does not end with its producer. Who takes the id over without
ending what is open gets an identity of its own (`client`), and may only end it; the open transaction keeps the identity
that its records have.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Final

from ottla.base.errors import invariant
from ottla.base.types import NO_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, ProducerId, TimestampMs, TopicPartition
from ottla.coordinator.machine import ProducerIdentity
from ottla.coordinator.records import CoordinatorRecord
from ottla.coordinator.transactions.producer_epochs import EPOCH_MAX, LAST_USABLE_EPOCH
from ottla.wire import api

EPOCH_BUMPING_VERSION: Final = 2
"""The transaction.version from which on every end of a transaction raises the producer's epoch (KIP-890)."""

TWO_PHASE_TIMEOUT_MS: Final = 2**31 - 1
"""Kafka's sign, in the record, of a transaction that somebody else decides upon: it has no time-out (KIP-939)."""


class TransactionState(IntEnum):
    """Kafka's numbers, which are in the records."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """As Kafka's tools write it: "PrepareCommit"."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_decided(self) -> bool:
        """Markers are being written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        """Nothing is open."""
        return self in _IDLE


_IDLE: Final = (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
_ALLOWED: Final[dict[TransactionState, tuple[TransactionState, ...]]] = {
    TransactionState.EMPTY: (TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.COMPLETE_ABORT),
    TransactionState.ONGOING: (
        TransactionState.ONGOING,
        TransactionState.PREPARE_COMMIT,
        TransactionState.PREPARE_ABORT,
    ),
    TransactionState.PREPARE_COMMIT: (TransactionState.COMPLETE_COMMIT,),
    TransactionState.PREPARE_ABORT: (TransactionState.COMPLETE_ABORT,),
    TransactionState.COMPLETE_COMMIT: (
        TransactionState.EMPTY,
        TransactionState.ONGOING,
        TransactionState.COMPLETE_ABORT,
    ),
    TransactionState.COMPLETE_ABORT: (
        TransactionState.EMPTY,
        TransactionState.ONGOING,
        TransactionState.COMPLETE_ABORT,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    transactional_id: str
    producer_id: ProducerId
    producer_epoch: int
    timeout_ms: int
    updated_ms: TimestampMs
    state: TransactionState = TransactionState.EMPTY
    partitions: tuple[TopicPartition, ...] = ()
    started_ms: TimestampMs = NO_TIMESTAMP
    previous_producer_id: ProducerId = NO_PRODUCER_ID
    next_producer_id: ProducerId = NO_PRODUCER_ID
    next_producer_epoch: int = NO_EPOCH
    """Who the client is already, where that is not who the open transaction's records are from."""
    client_version: int = 0
    """The transaction.version that whoever ended it last spoke."""

    @property
    def identity(self) -> ProducerIdentity:
        """Whose records the transaction has."""
        return ProducerIdentity(self.producer_id, self.producer_epoch)

    @property
    def client(self) -> ProducerIdentity:
        """Who may speak for the id."""
        if self.next_producer_id == NO_PRODUCER_ID:
            return self.identity
        return ProducerIdentity(self.next_producer_id, max(self.next_producer_epoch, 0))  # Older records have none.

    @property
    def previous_identity(self) -> ProducerIdentity:
        """What the same client was before its last bump; with epoch -1, which nobody has, if that is not known."""
        if self.previous_producer_id == NO_PRODUCER_ID:
            return ProducerIdentity(NO_PRODUCER_ID, NO_EPOCH)
        if self.previous_producer_id == self.client.producer_id:
            return ProducerIdentity(self.previous_producer_id, self.client.epoch - 1)
        return ProducerIdentity(self.previous_producer_id, LAST_USABLE_EPOCH)

    @property
    def bumps_epochs(self) -> bool:
        return self.client_version >= EPOCH_BUMPING_VERSION

    @property
    def is_taken_over(self) -> bool:
        """What is open is another's, kept by its client only to be ended."""
        return self.state is TransactionState.ONGOING and self.client != self.identity

    @property
    def is_two_phase(self) -> bool:
        return self.timeout_ms == TWO_PHASE_TIMEOUT_MS

    def deadline_ms(self, two_phase_ms_max: int) -> TimestampMs:
        """When an open transaction is given up."""
        return self.started_ms + (two_phase_ms_max if self.is_two_phase else self.timeout_ms)

    def moved(self, state: TransactionState, updated_ms: TimestampMs, **changes: Any) -> "Transaction":
        invariant(state in _ALLOWED[self.state], "an illegal transition", id=self.transactional_id, to=state.label)
        return replace(self, state=state, updated_ms=max(updated_ms, self.updated_ms), **changes)

    # -- the steps ---------------------------------------------------------------------------------------------------

    def with_partitions(self, partitions: Iterable[TopicPartition], now_ms: TimestampMs) -> "Transaction":
        is_first = self.state is not TransactionState.ONGOING
        return self.moved(
            TransactionState.ONGOING,
            now_ms,
            partitions=tuple(dict.fromkeys((*self.partitions, *partitions))),
            started_ms=now_ms if is_first else self.started_ms,
        )

    def ended(
        self,
        state: TransactionState,
        now_ms: TimestampMs,
        *,
        following: ProducerIdentity,
        previous_producer_id: ProducerId,
    ) -> "Transaction":
        """Decided: the id is `following`'s from now on. The markers have an epoch that ends the use of all before it."""
        is_same = following.producer_id == self.producer_id
        return self.moved(
            state,
            now_ms,
            producer_epoch=following.epoch if is_same else EPOCH_MAX,
            previous_producer_id=previous_producer_id,
            next_producer_id=NO_PRODUCER_ID if is_same else following.producer_id,
            next_producer_epoch=NO_EPOCH if is_same else following.epoch,
            client_version=EPOCH_BUMPING_VERSION,
        )

    def completed(self, now_ms: TimestampMs) -> "Transaction":
        """Every marker is written."""
        is_commit = self.state is TransactionState.PREPARE_COMMIT
        state = TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
        return self.moved(state, now_ms, partitions=()).renewed()

    def renewed(self) -> "Transaction":
        """As its client's, once nothing is open under another identity."""
        return replace(
            self,
            producer_id=self.client.producer_id,
            producer_epoch=self.client.epoch,
            next_producer_id=NO_PRODUCER_ID,
            next_producer_epoch=NO_EPOCH,
        )

    # -- records -----------------------------------------------------------------------------------------------------

    def record(self, transaction_version: int) -> CoordinatorRecord:
        """Kafka's: version 1 of the value, with what KIP-890 added, from transaction.version 1 on."""
        topics: dict[str, list[int]] = {}
        for topic, index in self.partitions:
            topics.setdefault(topic, []).append(index)
        value = api.TransactionLogValue(
            producer_id=self.producer_id,
            previous_producer_id=self.previous_producer_id,
            next_producer_id=self.next_producer_id,
            next_producer_epoch=self.next_producer_epoch,
            producer_epoch=self.producer_epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=self.state,
            transaction_partitions=None
            if self.state is TransactionState.EMPTY
            else [
                api.TransactionLogValue.PartitionsSchema(topic=topic, partition_ids=indexes)
                for topic, indexes in topics.items()
            ],
            transaction_last_update_timestamp_ms=self.updated_ms,
            transaction_start_timestamp_ms=self.started_ms,
            client_transaction_version=self.client_version,
        )
        return CoordinatorRecord(record_key(self.transactional_id), value, min(transaction_version, 1))

    @classmethod
    def of_record(cls, transactional_id: str, value: api.TransactionLogValue) -> "Transaction":
        return cls(
            transactional_id=transactional_id,
            producer_id=value.producer_id,
            producer_epoch=value.producer_epoch,
            timeout_ms=value.transaction_timeout_ms,
            updated_ms=value.transaction_last_update_timestamp_ms,
            state=TransactionState(value.transaction_status),
            partitions=tuple(
                TopicPartition(one.topic, index)
                for one in value.transaction_partitions or ()
                for index in one.partition_ids
            ),
            started_ms=value.transaction_start_timestamp_ms,
            previous_producer_id=value.previous_producer_id,
            next_producer_id=value.next_producer_id,
            next_producer_epoch=value.next_producer_epoch,
            client_version=value.client_transaction_version,
        )


def record_key(transactional_id: str) -> api.TransactionLogKey:
    return api.TransactionLogKey(transactional_id=transactional_id)
