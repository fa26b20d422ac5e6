"""Appending to one partition, in order: as its leader, or as a copy of it.

Appends of one partition keep the order of their calls, also when one of them must wait (a roll, a re-compression): the
others queue behind it. `append` therefore completes without suspending in the usual case, and a batch is written before
the call returns to the connection that holds its bytes. What a follower copies goes the same way.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final, Protocol, TypeVar

from ottla.base.errors import ApiError, ErrorCode, ProtocolError, RecordsRefused
from ottla.base.types import LeaderEpoch, Offset, ProducerId, TimestampMs, TopicId
from ottla.log.config import LogConfig
from ottla.log.partition_log import AppendResult, PartitionLog
from ottla.replica.committing_partition import CommittingPartition
from ottla.replica.storage import Storage
from ottla.replica.transaction_guards import TransactionGuards
from ottla.wire.batch import HEADER_BYTES, batches, parse_header
from ottla.wire.records import keyless_records, recompress

NEVER: Final = 2**63 - 1  # Kafka's default of flush.messages and flush.ms.
APPENDS_QUEUED_MAX: Final = 1024  # Behind one roll or re-compression; past it the producer is told to retry.

T = TypeVar("T")


class Append(Protocol):
    """How the log takes in a batch, once it is its turn."""

    def __call__(self, batch: memoryview, *, leader_epoch: LeaderEpoch, now_ms: TimestampMs) -> AppendResult: ...


class AppendablePartition(CommittingPartition):
    __slots__ = ("_append_busy", "_append_queue", "_flushes", "_guards", "_inspects", "_own_in_line")

    def __init__(self, log: PartitionLog, topic_id: TopicId, storage: Storage) -> None:
        super().__init__(log, topic_id, storage)
        self._guards: TransactionGuards | None = None
        self._append_queue: deque[asyncio.Future[None]] | None = None
        self._append_busy = False
        self._own_in_line: tuple[ProducerId, ...] = ()  # Whose transaction a marker may end that is not appended yet.
        self._adopt_config(log.config)

    # -- appending as the leader -------------------------------------------------------------------------------------

    async def append(self, batch: memoryview, append_own: Append | None = None) -> AppendResult:
        """Appends one batch, in call order (`begin_append`).

        `ApiError` when it is refused or when the disk is; the log is unchanged then.
        """
        appended = self.begin_append(batch, append_own)
        # A task of its own: a caller that goes away must not leave a roll half done and the turn given up.
        return appended if isinstance(appended, AppendResult) else await asyncio.shield(appended)

    def begin_append(
        self, batch: memoryview, append_own: Append | None = None
    ) -> "AppendResult | asyncio.Task[AppendResult]":
        """Takes the batch's place in the order of appends: done on return, unless something must be waited for.

        `append_own`: how the log takes in a batch that this broker has built; a client's is checked and inspected. What
        a broker builds is for all in-sync replicas, so that too few of them refuse it; of clients the handler asks that.
        """
        if append_own is not None and self.is_short_of_replicas:
            self.require_replicas()
        turn: asyncio.Future[None] | None = None
        if self._append_busy:
            turn = self._queue_up()
        else:
            now_ms = self._clock.now_ms()
            if (append_own is not None or not self._inspects) and not self.log.should_roll(len(batch), now_ms):
                return self._append_now(batch, now_ms, append_own)
            self._append_busy = True
        task = self._spawn_in_turn(turn, lambda: self._append_prepared(batch, append_own))
        if append_own is not None:
            self._note_in_line(parse_header(batch).producer_id, task)
        return task

    def _note_in_line(self, producer_id: ProducerId, task: "asyncio.Task[AppendResult]") -> None:
        """Until the append is over, whoever waits for it: a caller that goes away does not take it out of the line."""
        self._own_in_line = (*self._own_in_line, producer_id)

        def forget(_: "asyncio.Task[AppendResult]") -> None:
            left = list(self._own_in_line)
            left.remove(producer_id)
            self._own_in_line = tuple(left)

        task.add_done_callback(forget)

    @property
    def guards(self) -> TransactionGuards:
        """Producers about to open a transaction here."""
        if self._guards is None:
            self._guards = TransactionGuards()
        return self._guards

    def is_in_transaction(self, producer_id: ProducerId, producer_epoch: int) -> bool:
        """Whether its next batch goes on with an open transaction, if it takes its place in line at once. Not known while
        a batch of it that a broker has built is in line: that may be the marker."""
        producer = self.log.producer_state.producers.get(producer_id)
        if producer is None or producer_id in self._own_in_line:
            return False
        return producer.epoch == producer_epoch and producer.transaction_first_offset >= 0

    def _append_now(self, batch: memoryview, now_ms: TimestampMs, append_own: Append | None) -> AppendResult:
        if not self.is_leading or self.storage.is_refusing:
            self._require_leading()
            self._require_writable()
        log = self.log
        append = append_own or log.append_as_leader
        try:
            result = append(batch, leader_epoch=self.leader_epoch, now_ms=now_ms)
        except OSError as error:
            raise self._storage_failed(error) from error
        if not result.is_duplicate:
            if self.leadership is not None:
                self._tell_of_end(len(batch))
                if not self.leadership.is_followed_in_sync:
                    self._move_watermark()
            elif log.durable_end_offset > self.high_watermark:
                # A marker makes more readable than its own bytes: whoever waits looks again.
                self._advance_to(log.durable_end_offset, len(batch) if append_own is None else 0)
            if self._flushes:
                self._request_flush()
        return result

    async def _append_prepared(self, batch: memoryview, append_own: Append | None) -> AppendResult:
        """The slow way: look into the batch, re-compress it or roll in a worker first. Nobody else appends meanwhile."""
        self._require_leading()
        self._require_writable()
        log = self.log
        if self._inspects and append_own is None:
            try:
                async with self.storage.inspections:
                    batch = await self._inspect(batch)
            except ProtocolError as error:
                raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{self.topic_partition}: {error}") from error
        if log.should_roll(len(batch), self._clock.now_ms()):
            await self._roll()
        return self._append_now(batch, self._clock.now_ms(), append_own)

    async def _inspect(self, batch: memoryview) -> memoryview:
        """Only some topics need it: compacted ones want keys, those with a `compression.type` their codec."""
        log, config = self.log, self.log.config
        header = log.check_batch(batch, self._clock.now_ms())
        if config.compacts and (refused := await self._workers.run(keyless_records, batch)):
            raise RecordsRefused(f"{self.topic_partition} is compacted: every record needs a key", refused)
        if config.compression_type is not None and log.needs_recompression(header):
            codec, level = config.compression_type, config.compression_level
            return memoryview(await self._workers.run(recompress, batch, codec, level))
        return batch

    # -- appending as a follower -------------------------------------------------------------------------------------

    def begin_copy(self, data: memoryview, leader_epoch: LeaderEpoch) -> "Offset | asyncio.Task[Offset]":
        """Appends batches as the leader of `leader_epoch` sent them: done on return, unless something must be waited for.

        Returns the new end. `ApiError` where we do not follow that leader any more, where the disk refuses, or where
        the bytes are rotten; `ProtocolError` where they are no batches.
        """
        if len(data) < HEADER_BYTES:
            return self.log.log_end_offset
        turn: asyncio.Future[None] | None = None
        if self._append_busy:
            turn = self._queue_up()
        else:
            now_ms = self._clock.now_ms()
            if len(data) <= self.log.config.segment_bytes and not self.log.should_roll_before(data, now_ms):
                return self._copy_now(data, leader_epoch, now_ms)
            self._append_busy = True
        return self._spawn_in_turn(turn, lambda: self._copy_prepared(data, leader_epoch))

    def _copy_now(self, data: memoryview, leader_epoch: LeaderEpoch, now_ms: TimestampMs) -> Offset:
        self.require_following(leader_epoch)
        self._require_writable()
        try:
            end_offset = self.log.append_as_follower(data, now_ms=now_ms)
        except OSError as error:
            raise self._storage_failed(error) from error
        if self._flushes:
            self._request_flush()
        return end_offset

    async def _copy_prepared(self, data: memoryview, leader_epoch: LeaderEpoch) -> Offset:
        log = self.log
        for piece in _pieces(data, log.config.segment_bytes):
            if log.should_roll_before(piece, self._clock.now_ms()):
                self.require_following(leader_epoch)
                log.skip_gap_before(piece)
                await self._roll()
            self._copy_now(piece, leader_epoch, self._clock.now_ms())
        return log.log_end_offset

    def require_following(self, leader_epoch: LeaderEpoch) -> None:
        """`ApiError` where the leader of that epoch is no longer the one to copy from."""
        if self.is_leading or self.leader_epoch != leader_epoch or self.deleted:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH, f"{self!r} does not follow in epoch {leader_epoch}")

    # -- the order of appends ----------------------------------------------------------------------------------------

    def _spawn_in_turn(
        self, turn: "asyncio.Future[None] | None", work: Callable[[], Coroutine[Any, Any, T]]
    ) -> "asyncio.Task[T]":
        return self.storage.tasks.spawn(self._run_in_turn(turn, work), name="append")

    async def _run_in_turn(self, turn: "asyncio.Future[None] | None", work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if turn is not None:
            await turn
        try:
            return await work()
        finally:
            self._end_turn()

    def _queue_up(self) -> "asyncio.Future[None]":
        queue = self._append_queue
        if queue is None:
            queue = self._append_queue = deque()
        if len(queue) >= APPENDS_QUEUED_MAX:
            raise ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS, f"{self.topic_partition}: too many appends wait for its disk; retry"
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        return turn

    def _end_turn(self) -> None:
        queue = self._append_queue
        # The turn is handed over, never released: an append arriving now must not overtake it.
        self._append_busy = bool(queue)
        if queue:
            queue.popleft().set_result(None)

    async def _roll(self) -> None:
        try:
            segment = await self._workers.run(self.log.prepare_roll)
        except OSError as error:
            raise self._storage_failed(error) from error
        self.log.complete_roll(segment)
        self._start_flush(segment.base_offset)  # What is sealed is synced soon, so that recovery never reads it again.

    # -- configuration -----------------------------------------------------------------------------------------------

    def update_config(self, config: LogConfig) -> None:
        self.log.update_config(config)
        self._adopt_config(config)
        self._move_watermark()

    def _adopt_config(self, config: LogConfig) -> None:
        self._flushes = config.flush_messages < NEVER or config.flush_ms < NEVER
        self._inspects = config.compression_type is not None or config.compacts


def _pieces(data: memoryview, size_max: int) -> Iterator[memoryview]:
    """Whole batches, as many together as fit; one that does not fit comes alone."""
    start = end = 0
    for batch in batches(data, stop_at_partial=True):
        next_end = batch.position + batch.header.size_bytes
        if next_end - start > size_max and end > start:
            yield data[start:end]
            start = end
        end = next_end
    if end > start:
        yield data[start:end]
