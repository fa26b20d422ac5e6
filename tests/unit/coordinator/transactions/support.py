"""A transaction machine without its runtime: what a decision records is replayed at once, as the runtime does."""

from typing import Any

from ottla.base.types import TopicPartition
from ottla.coordinator.machine import Decision, ProducerIdentity
from ottla.coordinator.records import TRANSACTION_RECORDS
from ottla.coordinator.transactions.machine import TransactionMachine
from ottla.coordinator.transactions.requests import EndTransaction, InitProducer
from ottla.coordinator.transactions.transaction import Transaction, TransactionState

ID = "orders-writer"
TIMEOUT_MS = 60_000
TWO_PHASE_MS_MAX = 3_600_000
ORDERS = TopicPartition("orders", 0)
STOCK = TopicPartition("stock", 3)


class Coordinator:
    """One machine, its log, and the producer ids it may give out."""

    def __init__(self, *, transaction_version: int = 2) -> None:
        self.transaction_version = transaction_version
        self.now_ms = 1_000
        self.decided: list[str] = []
        self.log: list[tuple[bytes, bytes | None]] = []
        self.next_producer_id = 100
        self.machine = self._new_machine()
        self.machine.start()

    def _new_machine(self) -> TransactionMachine:
        return TransactionMachine(
            transaction_version=lambda: self.transaction_version,
            two_phase_ms_max=TWO_PHASE_MS_MAX,
            on_decided=lambda id_: self.decided.append(id_),
        )

    def apply(self, decision: Decision[Any]) -> Any:
        for record in decision.records:
            self.log.append(TRANSACTION_RECORDS.encode(record))
            self.machine.replay(record, offset=len(self.log) - 1, transaction=None)
        return decision.reply

    def reload(self) -> None:
        """Another broker takes over: it knows what is in the log, and nothing else."""
        self.machine = self._new_machine()
        for offset, (key, value) in enumerate(self.log):
            record = TRANSACTION_RECORDS.decode(key, value)
            assert record is not None
            self.machine.replay(record, offset=offset, transaction=None)
        self.decided.clear()
        self.machine.start()

    # -- what producers do -------------------------------------------------------------------------------------------

    def take_producer_id(self) -> int:
        self.next_producer_id += 1
        return self.next_producer_id - 1

    def init(
        self, expected: ProducerIdentity | None = None, *, timeout_ms: int = TIMEOUT_MS, keeps_open: bool = False
    ) -> Transaction:
        request = InitProducer(transactional_id=ID, timeout_ms=timeout_ms, expected=expected, keeps_open=keeps_open)
        reply = self.apply(self.machine.decide_init(request, self.take_producer_id(), self.now_ms))
        assert isinstance(reply, Transaction)
        return reply

    def add(self, producer: ProducerIdentity, *partitions: TopicPartition) -> Transaction:
        reply = self.apply(self.machine.decide_add(ID, producer, partitions or (ORDERS,), self.now_ms))
        assert isinstance(reply, Transaction)
        return reply

    def end(self, producer: ProducerIdentity, *, is_commit: bool = True, client_version: int = 2) -> Transaction:
        request = EndTransaction(
            transactional_id=ID, producer=producer, is_commit=is_commit, client_version=client_version
        )
        reply = self.apply(self.machine.decide_end(request, self.take_producer_id(), self.now_ms))
        assert isinstance(reply, Transaction)
        return reply

    def complete(self) -> None:
        """The markers of what is decided are written."""
        prepared = self.machine.decided(ID).reply
        assert prepared is not None
        self.apply(self.machine.decide_completion(prepared, self.now_ms))

    @property
    def transaction(self) -> Transaction:
        return self.machine.describe(ID).reply

    @property
    def state(self) -> TransactionState:
        return self.transaction.state

    # -- short cuts --------------------------------------------------------------------------------------------------

    def ongoing(self) -> ProducerIdentity:
        producer = self.init().identity
        self.add(producer)
        return producer

    def at_epoch(self, epoch: int) -> ProducerIdentity:
        """A producer whose epochs have got that far."""
        producer = self.init().identity
        record = self.transaction.record(1)
        record.value.producer_epoch = epoch
        self.apply(Decision([record], None))
        return ProducerIdentity(producer.producer_id, epoch)
