"""What `Admin` tells of transactions and of the producers in a partition."""

from dataclasses import dataclass

from ottla.base.types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionListing:
    """`state` in Kafka's words: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, …"""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


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
