"""A partition of an internal topic as the log of its coordinator (coordinator/machine.py)."""

import asyncio
from typing import Any, Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import LeaderEpoch, Offset
from ottla.base.workers import Workers
from ottla.coordinator.machine import Appended, ProducerIdentity
from ottla.replica.partition import Partition
from ottla.wire.records import batches

READ_BYTES: Final = 1 << 20


class PartitionCoordinatorLog:
    """For one epoch of leadership: what the coordinator knows is void in the next."""

    def __init__(self, partition: Partition, workers: Workers) -> None:
        self.partition = partition
        self._workers = workers
        self.leader_epoch: Final[LeaderEpoch] = partition.leader_epoch

    def is_of(self, partition: Partition) -> bool:
        return self.partition is partition and self.leader_epoch == partition.leader_epoch

    @property
    def end_offset(self) -> Offset:
        return self.partition.log.log_end_offset

    def refusal(self) -> ApiError | None:
        if self.partition.leader_epoch != self.leader_epoch:
            return ApiError(ErrorCode.NOT_COORDINATOR, f"{self.partition.topic_partition} has another leader")
        reason = self.partition.storage.refusal
        return None if reason is None else ApiError(ErrorCode.KAFKA_STORAGE_ERROR, reason)

    def check_epoch(self, transaction: ProducerIdentity) -> None:
        self.partition.log.producer_state.check_epoch(transaction.producer_id, transaction.epoch)

    def begin_append(self, batch: memoryview) -> "Appended | asyncio.Future[Any]":
        if self.partition.leader_epoch != self.leader_epoch:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.partition.topic_partition} has another leader")
        return self.partition.begin_append(batch, self.partition.log.append_own)

    @property
    def is_all_committed(self) -> bool:
        return self.partition.high_watermark == self.partition.log.log_end_offset

    def committed(self, offset: Offset) -> asyncio.Future[None] | None:
        return self.partition.committed(offset)

    async def read(self, offset: Offset) -> bytes:
        return await self._workers.run(self._read, offset)

    def _read(self, offset: Offset) -> bytes:
        """Blocking."""
        log = self.partition.log
        try:
            found = log.read(max(offset, log.log_start_offset), READ_BYTES, min_one_batch=True)
            data = b"" if found.file is None else found.file.pread(found.size, found.position)
        except OSError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        whole_bytes = 0
        for batch in batches(memoryview(data), stop_at_partial=True):
            whole_bytes = batch.position + batch.header.size_bytes
        return data[:whole_bytes]
