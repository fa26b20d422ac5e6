"""What transactional producers and administrators ask, as the decisions see it."""

from dataclasses import dataclass
from enum import Enum

from ottla.base.types import ProducerId
from ottla.coordinator.machine import ProducerIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducer:
    transactional_id: str
    timeout_ms: int
    expected: ProducerIdentity | None = None
    """Who the producer believes to be (KIP-360); None for one that has just started, which fences all before it."""
    keeps_open: bool = False
    """What is open stays, for the producer to end it (KIP-939)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    transactional_id: str
    producer: ProducerIdentity
    is_commit: bool
    client_version: int
    """The transaction.version that the client speaks: from 2 on its epoch is raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionFilter:
    """Empty and -1: any."""

    states: frozenset[str] = frozenset()
    producer_ids: frozenset[ProducerId] = frozenset()
    longer_than_ms: int = -1
    pattern: str | None = None


class Needs(Enum):
    """Not decided: to be asked again with this at hand, because a decision takes nothing by itself."""

    PRODUCER_ID = "a producer id that nobody has had"
