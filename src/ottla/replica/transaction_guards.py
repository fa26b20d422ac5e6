"""Producers that are about to open a transaction on a partition, between the question whether they may and the append.

Their coordinator is asked before the first append (KIP-890), and meanwhile the world goes on. A marker that arrives in
between ends the producer's right: the guard that it entered with is void. So it is where the partition is not led here any
more, whoever wrote what elsewhere; then the producer comes again. And a batch that failed must not be overtaken for good by
a later one of the same producer, which a partition that knows nothing of the producer would accept: the lowest sequence
seen is remembered until all that wait are appended.
"""

from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import ProducerId
from ottla.log.producer_state import Producer

GUARDS_MAX: Final = 10_000  # Of producers that were refused and never came back; the oldest go.


class Guard:
    """Shared by all batches of a producer that wait at a time."""

    __slots__ = ("epoch", "first_sequence", "void_code")

    def __init__(self, epoch: int, first_sequence: int) -> None:
        self.epoch = epoch
        self.first_sequence = first_sequence
        self.void_code: ErrorCode | None = None


class TransactionGuards:
    __slots__ = ("_guards",)

    def __init__(self) -> None:
        self._guards: dict[ProducerId, Guard] = {}

    def enter(self, producer_id: ProducerId, epoch: int, sequence: int) -> Guard:
        """Called when a batch arrives, before the coordinator is asked."""
        guard = self._guards.get(producer_id)
        if guard is not None and guard.epoch >= epoch:
            if guard.epoch == epoch:
                guard.first_sequence = min(guard.first_sequence, sequence)
            return guard
        if guard is not None:
            guard.void_code = ErrorCode.INVALID_TXN_STATE
        guard = self._guards[producer_id] = Guard(epoch, sequence)
        if len(self._guards) > GUARDS_MAX:
            self._void(next(iter(self._guards)))
        return guard

    def check(self, guard: Guard, producer_id: ProducerId, sequence: int, producer: Producer | None) -> None:
        """`ApiError` where the batch that entered with `guard` must not be appended any more. Nothing is awaited
        between this and taking its place in the order of appends."""
        if guard.void_code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            raise ApiError(guard.void_code, f"producer {producer_id} began to write under another leadership")
        if guard.void_code is not None:
            raise ApiError(guard.void_code, f"the transaction of producer {producer_id} has ended meanwhile")
        is_known = producer is not None and producer.epoch == guard.epoch and producer.batches
        if sequence > guard.first_sequence and not is_known:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} sent sequence {sequence}, but {guard.first_sequence} was not appended",
            )

    def leave(self, guard: Guard, producer_id: ProducerId) -> None:
        """The last batch that waited is appended: from here on the log knows the producer."""
        if self._guards.get(producer_id) is guard:
            del self._guards[producer_id]

    def void(self, producer_id: ProducerId, marker_epoch: int, *, is_epoch_raised: bool) -> None:
        """A marker takes its place in the order of appends. One whose epoch was raised ends what has an older epoch; a
        guard of the same epoch belongs to the transaction after it."""
        guard = self._guards.get(producer_id)
        if guard is not None and guard.epoch < marker_epoch + (0 if is_epoch_raised else 1):
            self._void(producer_id)

    def close(self) -> None:
        """This broker leads the partition no more."""
        for guard in self._guards.values():
            guard.void_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        self._guards.clear()

    def _void(self, producer_id: ProducerId) -> None:
        self._guards.pop(producer_id).void_code = ErrorCode.INVALID_TXN_STATE
