"""One partition on this broker as its readers see it: what is below the high watermark, and who waits for more.

Consumers see what is below the high watermark; replicas read to the log end, for that is how the watermark comes to move.
Two sets of watchers therefore: those of the watermark and those of the end. While a follower's log is being truncated
nobody reads it.

Appending builds on this (appendable_partition), then upkeep and the roles of a replica (maintained_partition, partition).
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NO_EPOCH, NO_NODE, LeaderEpoch, NodeId, Offset, TopicId
from ottla.log.epoch_cache import EpochEnd
from ottla.log.partition_log import LogSlice, PartitionLog
from ottla.log.transaction_index import AbortedTransaction
from ottla.metadata.topic_names import INTERNAL_TOPICS
from ottla.replica.storage import Storage


class Watcher(Protocol):
    def on_partition_changed(self, appended_bytes: int) -> None:
        """More became readable (bytes), or the start, leader or existence of the partition changed (0)."""
        ...

    def on_watermark_moved(self) -> None:
        """For those who watch the end: nothing is new to read, but more of it is committed."""
        ...


class ReadablePartition:
    __slots__ = (
        "_clock",
        "_end_watchers",
        "_truncation",
        "_watchers",
        "_workers",
        "deleted",
        "high_watermark",
        "is_internal",
        "is_leading",
        "leader_epoch",
        "leader_id",
        "log",
        "storage",
        "topic_id",
        "topic_partition",
    )

    def __init__(self, log: PartitionLog, topic_id: TopicId, storage: Storage) -> None:
        self.topic_partition = topic_partition = log.topic_partition
        self.topic_id = topic_id
        self.log = log
        self.storage = storage
        self.leader_id: NodeId = NO_NODE
        self.leader_epoch: LeaderEpoch = NO_EPOCH
        self.is_leading = False
        self.deleted = False
        self.is_internal = topic_partition.topic in INTERNAL_TOPICS
        checkpointed = storage.directory.high_watermarks.get(topic_partition, 0)
        self.high_watermark: Offset = min(max(checkpointed, log.log_start_offset), log.log_end_offset)
        self._clock = storage.clock
        self._workers = storage.workers
        self._watchers: dict[Watcher, None] | None = None
        self._end_watchers: dict[Watcher, None] | None = None
        self._truncation: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.topic_partition}, led by {self.leader_id} in epoch {self.leader_epoch})"

    # -- reading -----------------------------------------------------------------------------------------------------

    @property
    def last_stable_offset(self) -> Offset:
        """Up to where (exclusive) readers of committed data may read: every transaction before it is decided."""
        return self.log.last_stable_offset(self.high_watermark)

    def read(self, offset: Offset, max_bytes: int, *, min_one_batch: bool) -> Coroutine[Any, Any, LogSlice]:
        """What consumers may see from `offset` on. A look-up that needs the disk runs in a worker."""
        return self._read(offset, max_bytes, self.high_watermark, min_one_batch=min_one_batch)

    def read_to_end(self, offset: Offset, max_bytes: int, *, min_one_batch: bool) -> Coroutine[Any, Any, LogSlice]:
        """What followers copy: committed or not."""
        return self._read(offset, max_bytes, self.log.log_end_offset, min_one_batch=min_one_batch)

    async def _read(self, offset: Offset, max_bytes: int, end: Offset, *, min_one_batch: bool) -> LogSlice:
        log = self.log
        if self._truncation is not None:
            self._refuse_reading()
        if log.is_cached(offset):
            return log.read(offset, max_bytes, up_to_offset=end, min_one_batch=min_one_batch)
        return await self._workers.run(log.read, offset, max_bytes, up_to_offset=end, min_one_batch=min_one_batch)

    async def read_committed(
        self, offset: Offset, max_bytes: int, *, min_one_batch: bool
    ) -> tuple[LogSlice, list[AbortedTransaction]]:
        """What readers of committed data may see, and the aborted transactions in it, whose records they pass over."""
        log, end = self.log, self.last_stable_offset
        if self._truncation is not None:
            self._refuse_reading()
        # Read once here, if it must be: a worker must not read the list of a segment that markers are appended to.
        log.active_segment.aborted_transactions()
        if log.is_cached(offset) and log.are_aborted_cached(offset):
            return log.read_committed(offset, max_bytes, up_to_offset=end, min_one_batch=min_one_batch)
        return await self._workers.run(
            log.read_committed, offset, max_bytes, up_to_offset=end, min_one_batch=min_one_batch
        )

    def _refuse_reading(self) -> None:
        raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE, f"{self.topic_partition} is being cut back to its leader's log")

    def check_leader_epoch(self, current_leader_epoch: LeaderEpoch) -> ErrorCode:
        """A client that knows an older leader is fenced, one that knows a newer one must wait for us (KIP-320)."""
        if current_leader_epoch in (-1, self.leader_epoch):
            return ErrorCode.NONE
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def divergence(self, last_epoch: LeaderEpoch, end_offset: Offset) -> EpochEnd | None:
        """Where this log and one that ends at `end_offset`, written last in `last_epoch`, part ways at the latest; None
        where the other is a prefix of this one (KIP-595)."""
        log = self.log
        if last_epoch == log.epochs.latest_epoch and end_offset <= log.log_end_offset:
            return None  # As a rule.
        known = log.end_offset_for_epoch(last_epoch)
        if known.epoch == NO_EPOCH:
            reason = f"{self.topic_partition} knows nothing of leader epoch {last_epoch}"
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, reason)
        return known if known.epoch < last_epoch or known.end_offset < end_offset else None

    # -- watching ----------------------------------------------------------------------------------------------------

    def watch(self, watcher: Watcher, *, end: bool = False) -> None:
        """Tells the watcher when the high watermark moves or, with `end`, when anything is appended."""
        if end:
            if self._end_watchers is None:
                self._end_watchers = {}
            self._end_watchers[watcher] = None
        else:
            if self._watchers is None:
                self._watchers = {}
            self._watchers[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        for watchers in (self._watchers, self._end_watchers):
            if watchers is not None:
                watchers.pop(watcher, None)
        self._watchers = self._watchers or None
        self._end_watchers = self._end_watchers or None

    def tell_watchers(self) -> None:
        """Something else than the ends changed: everybody looks again."""
        for watcher in (*(self._watchers or ()), *(self._end_watchers or ())):
            watcher.on_partition_changed(0)

    def _tell_of_watermark(self, appended_bytes: int) -> None:
        for watcher in tuple(self._watchers or ()):
            watcher.on_partition_changed(appended_bytes)
        for watcher in tuple(self._end_watchers or ()):
            watcher.on_watermark_moved()

    def _tell_of_end(self, appended_bytes: int) -> None:
        for watcher in tuple(self._end_watchers or ()):
            watcher.on_partition_changed(appended_bytes)
