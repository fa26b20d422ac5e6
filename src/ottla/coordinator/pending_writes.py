"""Records on their way into a coordinator's log. Offsets are given out here, before the write: nobody else appends to
the partition, so they are known.

Usually a decision is written at once, in a batch of its own. Commits of one turn of the loop, and whatever comes while a
write must wait (a roll), gather in one batch. A batch holds the records of one transaction or of none.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

from ottla.base.clock import Clock
from ottla.base.errors import ApiError, ErrorCode, violated
from ottla.base.types import Offset
from ottla.coordinator.machine import Appended, CoordinatorLog, ProducerIdentity
from ottla.wire.records import BatchBuilder, ControlType, end_transaction_marker, plain_batch

BATCH_BYTES_MAX: Final = 512 << 10
RECORDS_PENDING_MAX: Final = 100_000  # A disk that does not keep up makes callers retry; it does not grow our memory.


class PendingWrites:
    def __init__(self, log: CoordinatorLog, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._written_end: Offset = log.end_offset
        self.next_offset: Offset = log.end_offset
        self._open: list[tuple[bytes, bytes | None]] = []
        self._open_bytes = 0
        self._open_transaction: ProducerIdentity | None = None
        self._sealed: deque[bytearray] = deque()
        self._waiters: deque[tuple[Offset, asyncio.Future[None]]] = deque()
        self._failure: ApiError | None = None

    def add(self, encoded: Sequence[tuple[bytes, bytes | None]], transaction: ProducerIdentity | None) -> Offset:
        """Keys and values; the first one's offset to be, the others follow it. `ApiError` where too many wait."""
        if self.next_offset - self._written_end >= RECORDS_PENDING_MAX:
            raise _too_many()
        first_offset = self.next_offset
        for record in encoded:
            if transaction != self._open_transaction or self._open_bytes > BATCH_BYTES_MAX:
                self._seal()
                self._open_transaction = transaction
            self._open.append(record)
            key, value = record
            self._open_bytes += len(key) + (0 if value is None else len(value))
        self.next_offset = first_offset + len(encoded)
        return first_offset

    def add_marker(self, transaction: ProducerIdentity, *, is_commit: bool, coordinator_epoch: int) -> None:
        if self.next_offset - self._written_end >= RECORDS_PENDING_MAX:
            raise _too_many()
        self._seal()
        marker = end_transaction_marker(
            ControlType.COMMIT if is_commit else ControlType.ABORT,
            coordinator_epoch=coordinator_epoch,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.epoch,
            timestamp=self._clock.now_ms(),
        )
        self._sealed.append(marker)
        self.next_offset += 1

    def _seal(self) -> None:
        records, transaction = self._open, self._open_transaction
        if not records:
            return
        self._open, self._open_bytes = [], 0
        now_ms = self._clock.now_ms()
        if transaction is None:
            self._sealed.append(plain_batch(records, now_ms))
            return
        batch = BatchBuilder(producer_id=transaction.producer_id, producer_epoch=transaction.epoch, transactional=True)
        for key, value in records:
            batch.append(now_ms, key, value)
        self._sealed.append(batch.build())

    def begin_writes(self) -> "asyncio.Future[Appended] | None":
        """Writes what is left, up to the first batch that must be waited for: that is returned, and `on_written` is to
        follow. `ApiError` when one is not in the log."""
        self._seal()
        sealed = self._sealed
        while sealed:
            appended = self._log.begin_append(memoryview(sealed.popleft()))
            if isinstance(appended, asyncio.Future):
                return appended
            self.on_written(appended)
        return None

    def on_written(self, appended: Appended) -> None:
        last_offset = appended.last_offset
        self._written_end = last_offset + 1
        if self._written_end > self.next_offset:
            violated("nobody else appends here", end=self._written_end)
        while self._waiters and self._waiters[0][0] <= last_offset:
            _, waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)

    @property
    def is_all_written(self) -> bool:
        return self._written_end == self.next_offset

    def written(self, offset: Offset) -> asyncio.Future[None] | None:
        """None when `offset` is in the log already, else a future of that. `ApiError` when it will not be."""
        if offset < self._written_end:
            return None
        if self._failure is not None:
            raise self._failure
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((offset, waiter))
        return waiter

    def fail(self, error: ApiError) -> None:
        """Nothing further is written; whoever waits gets `error`."""
        self._failure = error
        self._open = []
        self._sealed.clear()
        waiters, self._waiters = self._waiters, deque()
        for _, waiter in waiters:
            if not waiter.done():
                waiter.set_exception(error)


def _too_many() -> ApiError:
    return ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "too many changes await their write; try again")
