"""One partition on this broker: the only place that appends to its log and moves its high watermark.

Appends of one partition keep the order of their calls, also when one of them must wait (a roll, a re-compression): the
others queue behind it. `append` therefore completes without suspending in the usual case, and a batch is written before
the call returns to the connection that holds its bytes.

The high watermark is the least durable end in the ISR; with one replica that is our own `durable_end_offset`. Every
acknowledgement with acks=all and everything a consumer sees is bounded by it, never by the log end.

Called by broker/handlers/produce, fetch, offsets; watched by fetch sessions (`Watcher`).
"""

import asyncio
import errno
import logging
from collections import deque
from typing import Final, Protocol

from ottla.base.clock import Clock
from ottla.base.errors import ApiError, ErrorCode, ProtocolError, RecordsRefused, invariant
from ottla.base.types import LeaderEpoch, NodeId, Offset, ProducerId, TimestampMs, TopicId, TopicPartition
from ottla.base.workers import Workers
from ottla.log.compaction.job import CleanedSegment
from ottla.log.config import LogConfig
from ottla.log.partition_log import AppendResult, LogSlice, PartitionLog, SidecarsUnsaved
from ottla.log.segment import Segment
from ottla.log.transaction_index import AbortedTransaction
from ottla.metadata.topic_names import INTERNAL_TOPICS
from ottla.replica.storage import Storage
from ottla.replica.transaction_guards import TransactionGuards
from ottla.wire.records import keyless_records, recompress

logger = logging.getLogger(__name__)

NEVER: Final = 2**63 - 1  # Kafka's default of flush.messages and flush.ms.
FLUSH_TIMER_MS_MAX: Final = 7 * 24 * 3600 * 1000  # Beyond a week there is no point in a timer.
APPENDS_QUEUED_MAX: Final = 1024  # Behind one roll or re-compression; past it the producer is told to retry.


class Append(Protocol):
    """How the log takes in a batch, once it is its turn."""

    def __call__(self, batch: memoryview, *, leader_epoch: LeaderEpoch, now_ms: TimestampMs) -> AppendResult: ...


class Watcher(Protocol):
    def on_partition_changed(self, appended_bytes: int) -> None:
        """More became readable (bytes), or the start, leader or existence of the partition changed (0)."""
        ...


class Partition:
    __slots__ = (
        "_append_busy",
        "_append_queue",
        "_clock",
        "_commit_waiters",
        "_flush_timer",
        "_flushes",
        "_flushing",
        "_guards",
        "_inspects",
        "_watchers",
        "_workers",
        "deleted",
        "high_watermark",
        "is_internal",
        "leader_epoch",
        "leader_id",
        "log",
        "storage",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        *,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        log: PartitionLog,
        leader_id: NodeId,
        leader_epoch: LeaderEpoch,
        clock: Clock,
        workers: Workers,
        storage: Storage,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.high_watermark: Offset = log.durable_end_offset
        log.epochs.assign(leader_epoch, log.log_end_offset)
        self.deleted = False
        self.is_internal = topic_partition.topic in INTERNAL_TOPICS
        self._guards: TransactionGuards | None = None
        self._clock = clock
        self._workers = workers
        self.storage = storage
        self._watchers: dict[Watcher, None] | None = None
        self._commit_waiters: deque[tuple[Offset, asyncio.Future[None]]] | None = None
        self._append_queue: deque[asyncio.Future[None]] | None = None
        self._append_busy = False
        self._flushing = False
        self._flush_timer: asyncio.TimerHandle | None = None
        self._adopt_config(log.config)

    # -- appending ---------------------------------------------------------------------------------------------------

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

        `append_own`: how the log takes in a batch that this broker has built; a client's is checked and inspected.
        """
        turn: asyncio.Future[None] | None = None
        if self._append_busy:
            turn = self._queue_up()
        else:
            now_ms = self._clock.now_ms()
            if (append_own is not None or not self._inspects) and not self.log.should_roll(len(batch), now_ms):
                return self._append_now(batch, now_ms, append_own)
            self._append_busy = True
        return self.storage.tasks.spawn(self._append_in_turn(turn, batch, append_own), name="append")

    @property
    def guards(self) -> TransactionGuards:
        """Producers about to open a transaction here."""
        if self._guards is None:
            self._guards = TransactionGuards()
        return self._guards

    def is_in_transaction(self, producer_id: ProducerId, producer_epoch: int) -> bool:
        """Whether its next batch goes on with an open transaction. Not known while appends are in line: one of them may
        be the marker."""
        producer = self.log.producer_state.producers.get(producer_id)
        if producer is None or self._append_busy:
            return False
        return producer.epoch == producer_epoch and producer.transaction_first_offset >= 0

    async def _append_in_turn(
        self, turn: "asyncio.Future[None] | None", batch: memoryview, append_own: Append | None
    ) -> AppendResult:
        if turn is not None:
            await turn
        try:
            return await self._append_prepared(batch, append_own)
        finally:
            self._append_busy = False
            self._wake_next_append()

    def _append_now(self, batch: memoryview, now_ms: TimestampMs, append_own: Append | None) -> AppendResult:
        if self.deleted or self.storage.is_refusing:
            self._require_writable()
        log = self.log
        append = append_own or log.append_as_leader
        try:
            result = append(batch, leader_epoch=self.leader_epoch, now_ms=now_ms)
        except OSError as error:
            raise self._storage_failed(error) from error
        if not result.is_duplicate:
            if log.durable_end_offset > self.high_watermark:
                # A marker makes more readable than its own bytes: whoever waits looks again.
                self._advance(len(batch) if append_own is None else 0)
            if self._flushes:
                self._request_flush()
        return result

    async def _append_prepared(self, batch: memoryview, append_own: Append | None) -> AppendResult:
        """The slow way: look into the batch, re-compress it or roll in a worker first. Nobody else appends meanwhile."""
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

    async def _roll(self) -> None:
        try:
            segment = await self._workers.run(self.log.prepare_roll)
        except OSError as error:
            raise self._storage_failed(error) from error
        self.log.complete_roll(segment)
        self._start_flush(segment.base_offset)  # What is sealed is synced soon, so that recovery never reads it again.

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

    def _wake_next_append(self) -> None:
        queue = self._append_queue
        if queue:
            # The turn is handed over, never released: an append arriving now must not overtake it.
            self._append_busy = True
            queue.popleft().set_result(None)

    def _require_writable(self) -> None:
        if self.deleted:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.topic_partition} was deleted")
        if self.storage.refusal is not None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, self.storage.refusal)

    def _storage_failed(self, error: OSError) -> ApiError:
        if self.deleted:  # Its files go away under it: that says nothing about the disk.
            return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.topic_partition} was deleted")
        self.storage.on_error(error)
        if error.errno != errno.ENOSPC:
            logger.error("append failed", extra={"partition": str(self.topic_partition), "error": str(error)})
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, self.storage.refusal or f"{self.topic_partition}: {error}")

    # -- durability and the high watermark ---------------------------------------------------------------------------

    def _request_flush(self) -> None:
        """Starts a group fsync when one is due; appends arriving meanwhile share the next one."""
        if self.log.needs_flush(self._clock.now_ms()):
            self._start_flush()
        elif self._flush_timer is None and self.log.config.flush_ms <= FLUSH_TIMER_MS_MAX:
            delay_ms = self.log.last_flush_ms + self.log.config.flush_ms - self._clock.now_ms()
            self._flush_timer = asyncio.get_running_loop().call_later(max(delay_ms, 0) / 1000, self._on_flush_timer)

    def _on_flush_timer(self) -> None:
        self._flush_timer = None
        if not self.deleted and self.log.recovery_point < self.log.log_end_offset:
            self._start_flush()

    def _start_flush(self, up_to_offset: Offset | None = None) -> None:
        if self._flushing:
            return
        self._flushing = True
        self.storage.tasks.spawn(self._flush(up_to_offset), name=f"flush {self.topic_partition}")

    async def _flush(self, up_to_offset: Offset | None) -> None:
        try:
            end = await self._workers.run(self.log.sync_files, up_to_offset)
        except SidecarsUnsaved as error:
            # Nothing is in doubt but not everything is saved, for want of space as a rule: the next flush tries again.
            self._fail_commit_waiters(self._storage_failed(error))
            return
        except OSError as error:
            # After a failed fsync the kernel may have dropped the pages: what was written is unknown, so nothing of it
            # is acknowledged and the directory takes no more writes until it was recovered by a restart.
            if not self.deleted:
                self.storage.on_sync_error(error)
            reason = f"{self.topic_partition}: fsync failed: {error}"
            self._fail_commit_waiters(ApiError(ErrorCode.KAFKA_STORAGE_ERROR, reason))
            return
        finally:
            self._flushing = False
        if self.deleted:
            return
        self.log.complete_flush(end, self._clock.now_ms())
        self._advance(0)
        sealed_end = self.log.active_segment.base_offset
        if self.log.needs_flush(self._clock.now_ms()):
            self._start_flush()
        elif self.log.recovery_point < sealed_end:  # Another segment was sealed meanwhile.
            self._start_flush(sealed_end)

    def _advance(self, appended_bytes: int) -> None:
        end = self.log.durable_end_offset
        invariant(end >= self.high_watermark, "the high watermark never goes back", end=end, was=self.high_watermark)
        self.high_watermark = end
        waiters = self._commit_waiters
        while waiters and waiters[0][0] < end:
            _, future = waiters.popleft()
            if not future.done():
                future.set_result(None)
        if self._watchers:
            self.tell_watchers(appended_bytes)

    def _fail_commit_waiters(self, error: ApiError) -> None:
        waiters, self._commit_waiters = self._commit_waiters, None
        for _, future in waiters or ():
            if not future.done():
                future.set_exception(error)

    def committed(self, offset: Offset) -> asyncio.Future[None] | None:
        """None when the record at `offset` is committed already, else a future of that."""
        if offset < self.high_watermark:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters = self._commit_waiters
        if waiters is None:
            waiters = self._commit_waiters = deque()
        waiters.append((offset, future))
        return future

    # -- reading -----------------------------------------------------------------------------------------------------

    @property
    def last_stable_offset(self) -> Offset:
        """Up to where (exclusive) readers of committed data may read: every transaction before it is decided."""
        return self.log.last_stable_offset(self.high_watermark)

    async def read(self, offset: Offset, max_bytes: int, *, min_one_batch: bool) -> LogSlice:
        """What consumers may see from `offset` on. A look-up that needs the disk runs in a worker."""
        log, end = self.log, self.high_watermark
        if log.is_cached(offset):
            return log.read(offset, max_bytes, up_to_offset=end, min_one_batch=min_one_batch)
        return await self._workers.run(log.read, offset, max_bytes, up_to_offset=end, min_one_batch=min_one_batch)

    async def read_committed(
        self, offset: Offset, max_bytes: int, *, min_one_batch: bool
    ) -> tuple[LogSlice, list[AbortedTransaction]]:
        """What readers of committed data may see, and the aborted transactions in it, whose records they pass over."""
        log, end = self.log, self.last_stable_offset
        # Read once here, if it must be: a worker must not read the list of a segment that markers are appended to.
        log.active_segment.aborted_transactions()
        if log.is_cached(offset) and log.are_aborted_cached(offset):
            return log.read_committed(offset, max_bytes, up_to_offset=end, min_one_batch=min_one_batch)
        return await self._workers.run(
            log.read_committed, offset, max_bytes, up_to_offset=end, min_one_batch=min_one_batch
        )

    def check_leader_epoch(self, current_leader_epoch: LeaderEpoch) -> ErrorCode:
        """A client that knows an older leader is fenced, one that knows a newer one must wait for us (KIP-320)."""
        if current_leader_epoch in (-1, self.leader_epoch):
            return ErrorCode.NONE
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def watch(self, watcher: Watcher) -> None:
        if self._watchers is None:
            self._watchers = {}
        self._watchers[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        if self._watchers is not None:
            self._watchers.pop(watcher, None)
            if not self._watchers:
                self._watchers = None

    def tell_watchers(self, appended_bytes: int = 0) -> None:
        for watcher in tuple(self._watchers or ()):
            watcher.on_partition_changed(appended_bytes)

    # -- housekeeping ------------------------------------------------------------------------------------------------

    async def enforce_retention(self) -> list[Segment]:
        """Takes what is past retention out of the log; the caller deletes the files after `file.delete.delay.ms`."""
        async with self.storage.upkeep:
            return await self._enforce_retention()

    async def _enforce_retention(self) -> list[Segment]:
        if self._append_busy or self.deleted:
            return []
        # Nobody appends or rolls between the plan and its execution.
        self._append_busy = True
        try:
            expired = await self._plan_retention()
            if expired and expired[-1] is self.log.active_segment:
                try:
                    await self._roll()
                except ApiError:
                    # A disk without a free page: what is sealed goes all the same, and makes room for the rest.
                    expired.pop()
            self.log.detach(expired)
        finally:
            self._append_busy = False
            self._wake_next_append()
        if expired:
            self.tell_watchers()
            await self._workers.run(self.log.rename_deleted, expired)
        return expired

    async def _plan_retention(self) -> list[Segment]:
        return await self._workers.run(
            self.log.plan_retention, self._clock.now_ms(), high_watermark=self.high_watermark
        )

    async def swap_in(self, cleaned: CleanedSegment) -> bool:
        """Puts a cleaned segment in the place of those it was made from; appends and reads go on beside it.

        False: they are no longer all there, or the disk failed, which is told to its directory.
        """
        async with self.storage.upkeep:
            replaced = self.log.segments.between(cleaned.base_offset, cleaned.end_offset)
            try:
                if self.deleted:
                    return False
                if replaced is None:  # Retention was faster.
                    await self._workers.run(self.log.discard_cleaned, cleaned)
                    return False
                segment = await self._workers.run(self.log.prepare_swap, cleaned)
            except OSError as error:
                self._storage_failed(error)  # The log is what it was.
                return False
            self.log.complete_swap(replaced, segment)
            try:
                await self._workers.run(self.log.finish_swap, replaced, segment)
            except OSError as error:
                self.storage.on_sync_error(error)  # A restart finishes it; until then names on disk are in doubt.
                return False
            return True

    async def note_cleaned(self, end_offset: Offset) -> None:
        """A pass of compaction has come to its end."""
        async with self.storage.upkeep:
            if not self.deleted:
                await self._workers.run(self.storage.directory.write_cleaned_end, self.topic_partition, end_offset)

    def update_config(self, config: LogConfig) -> None:
        self.log.update_config(config)
        self._adopt_config(config)
        self._advance(0)

    def _adopt_config(self, config: LogConfig) -> None:
        self._flushes = config.flush_messages < NEVER or config.flush_ms < NEVER
        self._inspects = config.compression_type is not None or config.compacts

    async def delete_records_before(self, offset: Offset) -> Offset:
        """Moves the log start (-1: to the high watermark); whole segments below it go with the next retention pass."""
        target = self.high_watermark if offset == -1 else offset
        if not 0 <= target <= self.high_watermark:
            reason = f"{self.topic_partition}: {target} is past the high watermark {self.high_watermark}"
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, reason)
        self.log.delete_records_before(target)
        self.tell_watchers()
        return self.log.log_start_offset

    def mark_deleted(self) -> None:
        self.deleted = True
        if self._flush_timer is not None:
            self._flush_timer.cancel()
        self._fail_commit_waiters(ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.topic_partition} was deleted"))
        self.tell_watchers()
