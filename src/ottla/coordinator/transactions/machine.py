"""The transactional ids of one partition of `__transaction_state`.

Every decision is a new value of one `Transaction`, recorded whole; what may follow what is in initialising.py, ending.py
and transaction.py. The machine writes no markers: whoever built it is told (`on_decided`) which id has a decided
transaction, live and after loading, has the markers written and comes back with `decide_completion`.

Called by broker/handlers/transactions.py and broker/transactions.py, through the coordinators' runtime.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import Offset, ProducerId, TimestampMs, TopicPartition
from ottla.coordinator.machine import Decision, ProducerIdentity
from ottla.coordinator.records import CoordinatorRecord
from ottla.coordinator.transactions.ending import check_producer, ended
from ottla.coordinator.transactions.initialising import created, fenced, initialised
from ottla.coordinator.transactions.requests import EndTransaction, InitProducer, Needs, TransactionFilter
from ottla.coordinator.transactions.transaction import Transaction, TransactionState, record_key
from ottla.metadata.topic_names import TRANSACTION_TOPIC

Changed: TypeAlias = Decision[Transaction | Needs]


class TransactionMachine:
    def __init__(
        self, *, transaction_version: Callable[[], int], two_phase_ms_max: int, on_decided: Callable[[str], None]
    ) -> None:
        """`transaction_version`: the finalized level, which says how records are written."""
        self._transaction_version = transaction_version
        self._two_phase_ms_max = two_phase_ms_max
        self._on_decided = on_decided
        self._transactions: dict[str, Transaction] = {}
        self._is_started = False

    # -- what is recorded --------------------------------------------------------------------------------------------

    def replay(self, record: CoordinatorRecord, *, offset: Offset, transaction: ProducerIdentity | None) -> None:
        transactional_id = record.key.transactional_id
        if record.value is None:
            self._transactions.pop(transactional_id, None)
            return
        replayed = Transaction.of_record(transactional_id, record.value)
        self._transactions[transactional_id] = replayed
        if self._is_started and replayed.state.is_decided:
            self._on_decided(transactional_id)

    def replay_marker(self, transaction: ProducerIdentity, *, is_commit: bool) -> None:
        """No transaction writes to this topic."""

    def start(self) -> None:
        self._is_started = True
        for transaction in self._transactions.values():
            if transaction.state.is_decided:
                self._on_decided(transaction.transactional_id)

    def unload(self, error: ApiError) -> None:
        self._is_started = False

    # -- producers ---------------------------------------------------------------------------------------------------

    def decide_init(self, request: InitProducer, new_producer_id: ProducerId | None, now_ms: TimestampMs) -> Changed:
        current = self._transactions.get(request.transactional_id)
        if current is not None:
            return self._changed(current, initialised(current, request, new_producer_id, now_ms))
        if new_producer_id is None:
            return Decision((), Needs.PRODUCER_ID)
        return self._changed(None, created(request, new_producer_id, now_ms))

    def decide_add(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Sequence[TopicPartition],
        now_ms: TimestampMs,
    ) -> Changed:
        """Opens the transaction if none is, and takes the partitions in."""
        if any(one.topic == TRANSACTION_TOPIC for one in partitions):
            # Its markers would be written past the runtime, which alone appends there.
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"{TRANSACTION_TOPIC} is in no transaction")
        current = self._of_writer(transactional_id, producer)
        if current.state is TransactionState.ONGOING and set(partitions) <= set(current.partitions):
            return Decision((), current)
        return self._changed(current, current.with_partitions(partitions, now_ms))

    def verify(self, transactional_id: str, producer: ProducerIdentity) -> Decision[frozenset[TopicPartition]]:
        """The partitions that belong to the producer's transaction: what it may write to (KIP-890)."""
        current = self._of_writer(transactional_id, producer)
        return Decision((), frozenset(current.partitions))

    def decide_end(self, request: EndTransaction, new_producer_id: ProducerId | None, now_ms: TimestampMs) -> Changed:
        current = self._found(request.transactional_id)
        return self._changed(current, ended(current, request, new_producer_id, now_ms))

    def _of_writer(self, transactional_id: str, producer: ProducerIdentity) -> Transaction:
        """If the producer may write now."""
        current = self._found(transactional_id)
        check_producer(current, *producer)
        if current.state.is_decided:
            raise _being_written(transactional_id)
        if current.is_taken_over:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE, f"{transactional_id!r}: what is open was kept to be ended, nothing else"
            )
        return current

    def _found(self, transactional_id: str) -> Transaction:
        current = self._transactions.get(transactional_id)
        if current is None:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"the transactional id {transactional_id!r} has no producer"
            )
        return current

    def _changed(self, current: Transaction | None, changed: Transaction | Needs) -> Changed:
        if changed is current or isinstance(changed, Needs):
            return Decision((), changed)
        return Decision([changed.record(self._transaction_version())], changed)

    # -- what time brings --------------------------------------------------------------------------------------------

    def decided(self, transactional_id: str) -> Decision[Transaction | None]:
        """The transaction whose markers are to be written, if there is one."""
        current = self._transactions.get(transactional_id)
        return Decision((), current if current is not None and current.state.is_decided else None)

    def decide_completion(self, prepared: Transaction, now_ms: TimestampMs) -> Decision[None]:
        """Its markers are written. Nothing happens where it has moved on already."""
        if self._transactions.get(prepared.transactional_id) != prepared:
            return Decision((), None)
        return Decision([prepared.completed(now_ms).record(self._transaction_version())], None)

    def overdue(self, now_ms: TimestampMs) -> list[str]:
        """Those whose transaction is open for longer than its producer allowed."""
        return [one.transactional_id for one in self._transactions.values() if self._is_overdue(one, now_ms)]

    def decide_timeout(self, transactional_id: str, now_ms: TimestampMs) -> Decision[None]:
        current = self._transactions.get(transactional_id)
        if current is None or not self._is_overdue(current, now_ms):
            return Decision((), None)
        return Decision([fenced(current, now_ms).record(self._transaction_version())], None)

    def _is_overdue(self, one: Transaction, now_ms: TimestampMs) -> bool:
        return one.state is TransactionState.ONGOING and now_ms >= one.deadline_ms(self._two_phase_ms_max)

    def decide_expiry(self, now_ms: TimestampMs, expiration_ms: int) -> Decision[int]:
        """Forgets the ids that nobody used for so long; how many."""
        tombstones = [
            CoordinatorRecord(record_key(one.transactional_id), None)
            for one in self._transactions.values()
            if one.state.is_idle and now_ms - one.updated_ms >= expiration_ms
        ]
        return Decision(tombstones, len(tombstones))

    # -- looking -----------------------------------------------------------------------------------------------------

    def describe(self, transactional_id: str) -> Decision[Transaction]:
        current = self._transactions.get(transactional_id)
        if current is None:
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"no transactional id {transactional_id!r}")
        return Decision((), current)

    def awaiting_decision(self) -> list[Transaction]:
        """The open ones that do not end with their producer (KIP-939)."""
        return [
            one for one in self._transactions.values() if one.is_two_phase and one.state is TransactionState.ONGOING
        ]

    def matching(self, wanted: TransactionFilter, now_ms: TimestampMs) -> Decision[list[Transaction]]:
        return Decision((), [*self._matching(wanted, now_ms)])

    def _matching(self, wanted: TransactionFilter, now_ms: TimestampMs) -> Iterator[Transaction]:
        pattern = re.compile(wanted.pattern) if wanted.pattern else None
        for one in self._transactions.values():
            if (
                (not wanted.states or one.state.label in wanted.states)
                and (not wanted.producer_ids or one.producer_id in wanted.producer_ids)
                and (wanted.longer_than_ms < 0 or now_ms - one.started_ms > wanted.longer_than_ms)
                and (pattern is None or pattern.fullmatch(one.transactional_id))
            ):
                yield one


def _being_written(transactional_id: str) -> ApiError:
    return ApiError(ErrorCode.CONCURRENT_TRANSACTIONS, f"{transactional_id!r}: markers are being written")
