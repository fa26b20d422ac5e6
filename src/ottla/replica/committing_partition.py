"""From appended to durable to committed: group fsyncs, the high watermark, and whoever waits for it.

The high watermark is the least durable end in the ISR (leadership.py); with one replica that is our own
`durable_end_offset`. Every acknowledgement with acks=all and everything a consumer sees is bounded by it, never by the log
end.
"""

import asyncio
import errno
import logging
from bisect import insort
from collections import deque
from typing import Final, NamedTuple

from ottla.base.errors import ApiError, ErrorCode, violated
from ottla.base.lazy_timer import LazyTimer
from ottla.base.types import Offset, TopicId
from ottla.log.partition_log import PartitionLog, SidecarsUnsaved
from ottla.replica.leadership import Leadership
from ottla.replica.readable_partition import ReadablePartition
from ottla.replica.storage import Storage

logger = logging.getLogger(__name__)

FLUSH_TIMER_MS_MAX: Final = 7 * 24 * 3600 * 1000  # Beyond a week there is no point in a timer.


class _CommitWaiter(NamedTuple):
    offset: Offset
    future: "asyncio.Future[None]"
    deadline: float | None


class CommittingPartition(ReadablePartition):
    __slots__ = (
        "_commit_deadline",
        "_commit_waiters",
        "_flush_task",
        "_flush_timer",
        "is_short_of_replicas",
        "leadership",
    )

    def __init__(self, log: PartitionLog, topic_id: TopicId, storage: Storage) -> None:
        super().__init__(log, topic_id, storage)
        self.leadership: Leadership | None = None  # While others follow us.
        self.is_short_of_replicas = False  # Of what acks=all asks for (min.insync.replicas).
        self._commit_waiters: deque[_CommitWaiter] | None = None
        self._commit_deadline: LazyTimer | None = None
        self._flush_task: asyncio.Task[None] | None = None
        self._flush_timer: asyncio.TimerHandle | None = None

    # -- durability --------------------------------------------------------------------------------------------------

    async def wait_durable(self) -> bool:
        """Until all that was appended is as durable as the topic asks; False where its disk does not do it."""
        log = self.log
        while log.durable_end_offset < log.log_end_offset:
            flush = self._flush_task
            if flush is None:
                return False
            await asyncio.wait((flush,))
        return True

    def is_durable(self) -> bool:
        """Whether all that was appended is as durable as the topic asks; if not, an fsync is under way from here on."""
        if self.log.durable_end_offset >= self.log.log_end_offset:
            return True
        if not self.storage.is_refusing or self.storage.refusal is None:
            self._start_flush()
        return False

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
        if self._flush_task is None and self._truncation is None:
            flush = self._flush(up_to_offset)
            self._flush_task = self.storage.tasks.spawn(flush, name=f"flush {self.topic_partition}")

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
            self._flush_task = None
        if self.deleted:
            return
        self.log.complete_flush(end, self._clock.now_ms())
        self._move_watermark()
        sealed_end = self.log.active_segment.base_offset
        if self.log.needs_flush(self._clock.now_ms()):
            self._start_flush()
        elif self.log.recovery_point < sealed_end:  # Another segment was sealed meanwhile.
            self._start_flush(sealed_end)

    # -- the high watermark ------------------------------------------------------------------------------------------

    def _move_watermark(self) -> None:
        """As far as the in-sync replicas allow; a follower's moves as its leader says."""
        if not self.is_leading:
            return
        end = self.log.durable_end_offset
        if self.leadership is not None:
            end = self.leadership.committed_end(end, self._clock.monotonic())
        if end > self.high_watermark:
            self._advance_to(end, 0)

    def _advance_to(self, end: Offset, appended_bytes: int) -> None:
        if end < self.high_watermark:
            violated("the high watermark never goes back", end=end, was=self.high_watermark)
        self.high_watermark = end
        waiters = self._commit_waiters
        while waiters and waiters[0].offset < end:
            future = waiters.popleft().future
            if not future.done():
                future.set_result(None)
        if self._watchers or self._end_watchers:
            self._tell_of_watermark(appended_bytes)

    def _fail_commit_waiters(self, error: ApiError) -> None:
        waiters, self._commit_waiters = self._commit_waiters, None
        for waiter in waiters or ():
            if not waiter.future.done():
                waiter.future.set_exception(error)

    def committed(self, offset: Offset, timeout_seconds: float | None = None) -> asyncio.Future[None] | None:
        """None when the record at `offset` is committed already, else a future of that; REQUEST_TIMED_OUT where it takes
        longer than `timeout_seconds`.

        `ApiError` where we do not lead any more: at that offset there may soon be something else.
        """
        if not self.is_leading:
            self._require_leading()
        if offset < self.high_watermark:
            return None
        loop = asyncio.get_running_loop()
        deadline = None if timeout_seconds is None else loop.time() + timeout_seconds
        waiter = _CommitWaiter(offset, loop.create_future(), deadline)
        waiters = self._commit_waiters
        if waiters is None:
            waiters = self._commit_waiters = deque()
        if waiters and offset < waiters[-1].offset:  # A batch that came twice waits for the first one's offset.
            insort(waiters, waiter, key=lambda waiter: waiter.offset)
        else:
            waiters.append(waiter)
        if deadline is not None:
            if self._commit_deadline is None:
                self._commit_deadline = LazyTimer(self._on_commit_deadline)
            self._commit_deadline.bring_forward(deadline)
        return waiter.future

    def _on_commit_deadline(self) -> None:
        """Who waited too long is told so; the others go on waiting."""
        now = asyncio.get_running_loop().time()
        waiters, left = self._commit_waiters or (), deque[_CommitWaiter]()
        for waiter in waiters:
            if waiter.future.done():
                continue
            if waiter.deadline is None or waiter.deadline > now:
                left.append(waiter)
            else:
                reason = f"{self.topic_partition}: not committed in time"
                waiter.future.set_exception(ApiError(ErrorCode.REQUEST_TIMED_OUT, reason))
        self._commit_waiters = left
        deadlines = [waiter.deadline for waiter in left if waiter.deadline is not None]
        if deadlines and self._commit_deadline is not None:
            self._commit_deadline.set(min(deadlines))

    # -- refusals ----------------------------------------------------------------------------------------------------

    def require_replicas(self) -> None:
        """Asked before an append with acks=all, where `is_short_of_replicas`."""
        if self.is_leading:
            reason = f"{self.topic_partition} has fewer in-sync replicas than min.insync.replicas asks for"
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, reason)

    def _require_leading(self) -> None:
        if self.deleted:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.topic_partition} was deleted")
        if not self.is_leading:
            raise self._not_leading()

    def _not_leading(self) -> ApiError:
        return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.topic_partition} is led by node {self.leader_id}")

    def _require_writable(self) -> None:
        if self.storage.refusal is not None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, self.storage.refusal)

    def _storage_failed(self, error: OSError) -> ApiError:
        if self.deleted:  # Its files go away under it: that says nothing about the disk.
            return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.topic_partition} was deleted")
        self.storage.on_error(error)
        if error.errno != errno.ENOSPC:
            logger.error("append failed", extra={"partition": str(self.topic_partition), "error": str(error)})
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, self.storage.refusal or f"{self.topic_partition}: {error}")
