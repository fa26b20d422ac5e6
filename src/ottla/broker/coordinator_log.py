"""A partition of an internal topic as its coordinator sees it (coordinator/machine.py): led here, or followed."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import LeaderEpoch, Offset
from ottla.base.workers import Workers
from ottla.coordinator.machine import Appended, ProducerIdentity
from ottla.log.partition_log import LogSlice
from ottla.replica.partition import Partition

READ_BYTES: Final = 256 << 10  # At a start many partitions are loaded at a time, and each holds so much.


class _ReadLog:
    def __init__(self, partition: Partition, workers: Workers) -> None:
        self.partition = partition
        self._workers = workers

    @property
    def start_offset(self) -> Offset:
        return self.partition.log.log_start_offset

    async def _content(self, reading: Coroutine[Any, Any, LogSlice]) -> bytes:
        """`ApiError` where the disk fails, or where the partition has just been deleted with its files."""
        try:
            found = await reading
            if found.file is None:
                return b""
            if found.is_recent:  # As it is for who follows: no disk is waited for.
                return found.file.pread(found.size, found.position)
            return await self._workers.run(found.file.pread, found.size, found.position)
        except OSError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error


class LedCoordinatorLog(_ReadLog):
    """For one epoch of leadership: what the coordinator knows is void in the next."""

    def __init__(self, partition: Partition, workers: Workers) -> None:
        super().__init__(partition, workers)
        self.leader_epoch: Final[LeaderEpoch] = partition.leader_epoch

    def is_of(self, partition: Partition) -> bool:
        return self.partition is partition and self.leader_epoch == partition.leader_epoch and partition.is_leading

    @property
    def end_offset(self) -> Offset:
        return self.partition.log.log_end_offset

    async def read(self, offset: Offset) -> bytes:
        offset = max(offset, self.start_offset)
        return await self._content(self.partition.read_to_end(offset, READ_BYTES, min_one_batch=True))

    def refusal(self) -> ApiError | None:
        if self.partition.leader_epoch != self.leader_epoch:
            return ApiError(ErrorCode.NOT_COORDINATOR, f"{self.partition.topic_partition} has another leader")
        if self.partition.is_short_of_replicas:
            reason = f"{self.partition.topic_partition} has fewer in-sync replicas than min.insync.replicas asks for"
            return ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, reason)
        full = self.partition.storage.refusal
        return None if full is None else ApiError(ErrorCode.KAFKA_STORAGE_ERROR, full)

    def check_epoch(self, transaction: ProducerIdentity) -> None:
        self.partition.log.producer_state.check_epoch(transaction.producer_id, transaction.epoch)

    def begin_append(self, batch: memoryview) -> "Appended | asyncio.Future[Any]":
        if self.partition.leader_epoch != self.leader_epoch:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.partition.topic_partition} has another leader")
        return self.partition.begin_append(batch, self.partition.log.append_own)

    @property
    def is_all_committed(self) -> bool:
        return self.partition.high_watermark == self.partition.log.log_end_offset

    def committed(self, offset: Offset, timeout_seconds: float | None = None) -> asyncio.Future[None] | None:
        return self.partition.committed(offset, timeout_seconds)


class FollowedCoordinatorLog(_ReadLog):
    """In whatever epoch, as long as another broker leads. It ends at the high watermark: below it no record is taken back
    but by an unclean election, and then those who watch are told before anything else takes its place."""

    def __init__(self, partition: Partition, workers: Workers) -> None:
        super().__init__(partition, workers)
        self._on_changed: Callable[[], None] | None = None

    def is_of(self, partition: Partition) -> bool:
        return self.partition is partition and not partition.is_leading

    @property
    def end_offset(self) -> Offset:
        return self.partition.high_watermark

    async def read(self, offset: Offset) -> bytes:
        await self.partition.wait_untruncated()
        offset = max(offset, self.start_offset)
        return await self._content(self.partition.read(offset, READ_BYTES, min_one_batch=True))

    def watch(self, on_changed: Callable[[], None] | None) -> None:
        self._on_changed = on_changed
        if on_changed is None:
            self.partition.unwatch(self)
        else:
            self.partition.watch(self)

    def on_partition_changed(self, appended_bytes: int) -> None:
        if self._on_changed is not None:
            self._on_changed()

    def on_watermark_moved(self) -> None:
        """Told to those who watch the end of the log; this one watches the watermark itself."""
