"""What `Admin` tells of transactions and of the producers in a partition."""

from dataclasses import dataclass
from typing import Final

from ottla.base.types import TopicPartition

ONGOING: Final = "Ongoing"
STATES: Final = ("Empty", ONGOING, "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
TWO_PHASE_TIMEOUT_MS: Final = 2**31 - 1  # How brokers say it (KIP-939).


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionListing:
    """`state` in Kafka's words: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, …

    `started_ms` is None while none is open. One of two phases waits for somebody else's decision and has no time-out of
    its producer's.
    """

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int
    started_ms: int | None
    is_two_phase: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    """`started_ms` is None while no transaction is open; `partitions` are those it has written to."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    started_ms: int | None
    coordinator: str
    partitions: tuple[TopicPartition, ...]

    @property
    def is_two_phase(self) -> bool:
        return self.timeout_ms == TWO_PHASE_TIMEOUT_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerState:
    """A producer as a partition's leader knows it; `transaction_start_offset` is None where none is open."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    transaction_start_offset: int | None
