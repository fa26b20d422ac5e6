"""What a coordinator's state machine is to its runtime, and the log both stand on.

One machine owns one partition of an internal topic. It decides on requests (a function of its state and the request that
returns a `Decision`) and changes its state in `replay` alone, live and while loading alike. Replies that wait for other
clients (a join that waits for the group) are futures in the reply: the machine keeps and completes them, and fails them
in `unload`.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from ottla.base.errors import ApiError
from ottla.base.types import LeaderEpoch, Offset, ProducerId
from ottla.coordinator.records import CoordinatorRecord

Reply = TypeVar("Reply", covariant=True)


class ProducerIdentity(NamedTuple):
    """Whose transaction records belong to."""

    producer_id: ProducerId
    epoch: int


class Decision(NamedTuple, Generic[Reply]):
    """What shall be recorded, and what to tell the client once it is committed."""

    records: Sequence[CoordinatorRecord]
    reply: Reply
    transaction: ProducerIdentity | None = None
    """The records count only once this producer's transaction commits."""


Submit: TypeAlias = Callable[[Callable[[], Decision[Any]]], None]
"""How a machine decides by itself (a member's time is over): like a request that nobody waits for, later in this turn."""


class Machine(Protocol):
    def replay(self, record: CoordinatorRecord, *, offset: Offset, transaction: ProducerIdentity | None) -> None:
        """Applies one record; `offset` is its place in the log."""
        ...

    def replay_marker(self, transaction: ProducerIdentity, *, is_commit: bool) -> None:
        """A transaction that wrote here ended."""
        ...

    def start(self) -> None:
        """Everything in the log is replayed: time-outs begin, requests follow."""
        ...

    def unload(self, error: ApiError) -> None:
        """This broker coordinates no more: held replies fail with `error`, timers end. Called also before `start`."""
        ...


class Appended(Protocol):
    """What a log says of a batch that is in it."""

    @property
    def last_offset(self) -> Offset: ...


class ReplayedLog(Protocol):
    """A partition, as far as its records may be replayed here."""

    @property
    def start_offset(self) -> Offset: ...

    @property
    def end_offset(self) -> Offset: ...

    async def read(self, offset: Offset) -> bytes:
        """Batches from `offset` on, some, of which the last may be cut; empty at the end. `ApiError` when it cannot be
        read just now."""
        ...


class FollowedLog(ReplayedLog, Protocol):
    """The copy of a partition that another broker leads: it ends with what is committed."""

    def watch(self, on_changed: Callable[[], None] | None) -> None:
        """Whom to tell that more is committed, or that the log has been cut back."""
        ...


class CoordinatorLog(ReplayedLog, Protocol):
    """The partition, from its coordinator's side. Nobody else appends to it."""

    @property
    def leader_epoch(self) -> LeaderEpoch: ...

    def refusal(self) -> ApiError | None:
        """Why nothing can be appended just now (a full disk, too few replicas), if so: asked before anything is decided,
        because a decision that is not written voids all that the machine knows."""
        ...

    def check_epoch(self, transaction: ProducerIdentity) -> None:
        """`ApiError` when a newer epoch of the producer has written here already."""
        ...

    def begin_append(self, batch: memoryview) -> "Appended | asyncio.Future[Any]":
        """One batch, in the order of the calls: done on return, unless something must be waited for (a roll).
        `ApiError` when it is not in the log."""
        ...

    @property
    def is_all_committed(self) -> bool: ...

    def committed(self, offset: Offset, timeout_seconds: float | None = None) -> asyncio.Future[None] | None:
        """None when the record at `offset` is committed already, else a future of that; REQUEST_TIMED_OUT where it takes
        longer than `timeout_seconds`."""
        ...
