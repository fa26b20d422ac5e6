"""What happens to a partition's log besides appending: retention, compaction, DeleteRecords, and a follower's truncation.

Retention, compaction, truncation and topic deletion take files of a log away, by name: one of them at a time in a
directory (`Storage.upkeep`). A truncation also has the log for itself: it takes a turn in the order of appends, no fsync
is under way meanwhile (it would say nothing about what is appended later in the same place), and nobody reads.
"""

import asyncio
import logging

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import LeaderEpoch, Offset
from ottla.log.compaction.job import CleanedSegment
from ottla.log.segment import Segment
from ottla.replica.appendable_partition import AppendablePartition

logger = logging.getLogger(__name__)


class MaintainedPartition(AppendablePartition):
    __slots__ = ()

    # -- retention ---------------------------------------------------------------------------------------------------

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
            self._end_turn()
        if expired:
            self.tell_watchers()
            await self._workers.run(self.log.rename_deleted, expired)
        return expired

    async def _plan_retention(self) -> list[Segment]:
        return await self._workers.run(
            self.log.plan_retention, self._clock.now_ms(), high_watermark=self.high_watermark
        )

    async def delete_records_before(self, offset: Offset) -> Offset:
        """Moves the log start (-1: to the high watermark); whole segments below it go with the next retention pass."""
        target = self.high_watermark if offset == -1 else offset
        if not 0 <= target <= self.high_watermark:
            reason = f"{self.topic_partition}: {target} is past the high watermark {self.high_watermark}"
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, reason)
        self.log.delete_records_before(target)
        self.tell_watchers()
        return self.log.log_start_offset

    # -- compaction --------------------------------------------------------------------------------------------------

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

    async def note_cleaned(self, end_offset: Offset, *, cut_record_count: int) -> None:
        """A pass of compaction has come to its end. `cut_record_count`: that of the directory when the pass began.

        If anything was cut meanwhile, other records may be by now where the pass has cleaned: it counts for nothing.
        """
        async with self.storage.upkeep:
            if not self.deleted and cut_record_count == self.storage.cut_record_count:
                await self._workers.run(self.storage.directory.write_cleaned_end, self.topic_partition, end_offset)

    # -- truncation --------------------------------------------------------------------------------------------------

    async def truncate(self, offset: Offset, leader_epoch: LeaderEpoch, *, fully: bool = False) -> None:
        """Forgets what our log has from `offset` on, because the leader of `leader_epoch` has something else there.

        `fully`: all of it, to go on at `offset`. `ApiError` where we do not follow that leader any more.
        """
        truncation = self._truncate(offset, leader_epoch, fully)
        # A task of its own: who asked for it may go away, and the log must not be left half cut.
        await asyncio.shield(self.storage.tasks.spawn(truncation, name=f"truncate {self.topic_partition}"))

    async def _truncate(self, offset: Offset, leader_epoch: LeaderEpoch, fully: bool) -> None:
        async with self.storage.upkeep:
            if self._append_busy:
                await self._queue_up()
            self._append_busy = True
            try:
                self.require_following(leader_epoch)
                self._require_writable()
                self._truncation = asyncio.get_running_loop().create_future()
                await self._truncate_alone(offset, fully)
            finally:
                if self._truncation is not None:
                    self._truncation.set_result(None)
                    self._truncation = None
                self._end_turn()
        self.tell_watchers()

    async def _truncate_alone(self, offset: Offset, fully: bool) -> None:
        while self._flush_task is not None:
            await asyncio.wait((self._flush_task,))
        end_before, was_empty = self.log.log_end_offset, self.log.log_start_offset == self.log.log_end_offset
        try:
            await self._workers.run(self._truncate_log, offset, fully)
        except OSError as error:
            self.storage.on_sync_error(error)  # What is on disk is in doubt until a restart has looked.
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition}: {error}") from error
        end = self.log.log_end_offset
        self.storage.cut_record_count += max(end_before - end, 0)
        logger.info("%s: cut back from %d to %d, as its leader has it", self.topic_partition, end_before, end)
        if end < self.high_watermark and not was_empty:
            # Only an unclean election can do this: the one time when a watermark goes back.
            lost_count = self.high_watermark - end
            self.storage.lost_record_count += lost_count
            logger.warning(
                "%s: %d committed records from %d on are lost, by an unclean election before leader epoch %d",
                self.topic_partition, lost_count, end, self.leader_epoch
            )  # fmt: skip
        self.high_watermark = max(min(self.high_watermark, end), self.log.log_start_offset)

    def _truncate_log(self, offset: Offset, fully: bool) -> None:
        """Blocking."""
        if fully:
            self.log.truncate_fully_at(offset)
        else:
            self.log.truncate_to(offset, now_ms=self._clock.now_ms())
        # Before anything is appended: below the old recovery point nobody would look for a torn batch, and below the
        # old end of compaction not for a key's older values.
        self.storage.directory.write_recovery_point(self.log)
        self.storage.directory.cut_cleaned_end(self.log)

    async def wait_untruncated(self) -> None:
        """Whoever changes the partition's role waits for this first."""
        while self._truncation is not None:
            await asyncio.shield(self._truncation)
