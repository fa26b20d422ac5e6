"""Which log is compacted next, and its compaction from plan to swap.

`log.cleaner.threads` logs at once, the dirtiest first; when none is due, a rest of `log.cleaner.backoff.ms`. The work
on records is a `Cleaner`'s: in a broker a process of its own, so that no loop and no lock of ours waits for it. What it
delivers is swapped in segment by segment. A log that cannot be read is named and left alone until the next start; any
other failure is tried again after a rest.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from ottla.base.disk import Disk
from ottla.base.errors import ProtocolError
from ottla.base.types import Offset
from ottla.base.workers import Workers
from ottla.broker.node import Node
from ottla.log.compaction.clean import clean
from ottla.log.compaction.job import CleanedSegment, CleaningDone, CleaningJob
from ottla.log.compaction.plan import Cleanable, aborted_before, find_cleanable, first_dirty_offset, job_of
from ottla.replica.partition import Partition

logger = logging.getLogger(__name__)

CleaningResult: TypeAlias = CleanedSegment | CleaningDone

REST_SECONDS_MIN: Final = 0.1  # Whatever `log.cleaner.backoff.ms` says: looking around must not keep a core busy.
NEVER: Final = float("inf")


class Cleaner(Protocol):
    """Does the jobs, one at a time, outside the event loop."""

    def clean(self, job: CleaningJob) -> AsyncGenerator[CleaningResult, None]:
        """`OSError` or `ProtocolError` where the files cannot be read or written. Closing it ends the work."""
        ...

    async def close(self) -> None:
        """Gives its memory back; the next job begins anew."""
        ...


class InProcessCleaner:
    """Over the workers of this process: what the simulator uses. A thread would share the interpreter's lock."""

    def __init__(self, disk: Disk, workers: Workers) -> None:
        self._disk = disk
        self._workers = workers

    async def clean(self, job: CleaningJob) -> AsyncGenerator[CleaningResult, None]:
        results = clean(self._disk, job)
        while (result := await self._workers.run(next, results, None)) is not None:
            yield result

    async def close(self) -> None:
        """Nothing is kept."""


class _Due(NamedTuple):
    partition: Partition
    cleanable: Cleanable


class Compaction:
    def __init__(self, node: Node, new_cleaner: Callable[[], Cleaner] | None = None) -> None:
        self._node = node
        self._new_cleaner = new_cleaner or (lambda: InProcessCleaner(node.disk, node.workers))
        self._idle: list[Cleaner] = []
        self._running: dict[asyncio.Task[None], Partition] = {}
        self._not_before: dict[tuple[UUID, int], float] = {}

    async def compact_logs(self) -> None:
        """Until it is cancelled."""
        try:
            while True:
                await self.start_due()
                rest_seconds = self._rest_seconds()
                if self._running:
                    await asyncio.wait(self._running, timeout=rest_seconds, return_when=asyncio.FIRST_COMPLETED)
                else:
                    await self._close_idle()
                    await asyncio.sleep(rest_seconds)
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
            await self._close_idle()

    async def clean_all(self) -> None:
        """Until no log is due."""
        while await self.start_due():
            await asyncio.wait(self._running)

    async def start_due(self) -> bool:
        """Begins as many compactions as may run and are due. False: none is under way."""
        while len(self._running) < self._number("log.cleaner.threads") and (due := await self._dirtiest()):
            name = f"compact {due.partition.topic_partition}"
            task = asyncio.get_running_loop().create_task(self._compact(due), name=name)
            self._running[task] = due.partition
            task.add_done_callback(self._running.pop)
        return bool(self._running)

    async def _close_idle(self) -> None:
        while self._idle:
            await self._idle.pop().close()

    def _number(self, name: str) -> float:
        """A setting in force now."""
        value = self._node.live_setting(name)
        assert isinstance(value, int | float)
        return value

    def _rest_seconds(self) -> float:
        return max(REST_SECONDS_MIN, self._number("log.cleaner.backoff.ms") / 1000)

    # -- choosing ----------------------------------------------------------------------------------------------------

    async def _dirtiest(self) -> _Due | None:
        best: _Due | None = None
        for partition in list(self._node.partitions):
            if not partition.log.config.compacts or not self._may_begin(partition):
                continue
            cleanable = await self._find_cleanable(partition)
            if cleanable is None or not cleanable.is_due(partition.log.config):
                continue
            if best is None or cleanable.dirty_share > best.cleanable.dirty_share:
                best = _Due(partition, cleanable)
        return best

    def _may_begin(self, partition: Partition) -> bool:
        is_busy = any(one.topic_partition == partition.topic_partition for one in self._running.values())
        if is_busy or partition.deleted or partition.storage.refusal is not None:
            return False
        return self._node.clock.monotonic() >= self._not_before.get(_key(partition), 0)

    async def _find_cleanable(self, partition: Partition) -> Cleanable | None:
        log = partition.log
        first_dirty = self._first_dirty_offset(partition)
        limit = min(log.last_stable_offset(partition.high_watermark), log.recovery_point)
        if log.segments.floor(limit).base_offset <= first_dirty:
            return None
        try:
            return await self._node.workers.run(
                find_cleanable,
                list(log.segments),
                log.config,
                first_dirty_offset=first_dirty,
                limit=limit,
                now_ms=self._node.clock.now_ms(),
            )
        except Exception as error:
            self._put_off(partition, error)
            return None

    def _first_dirty_offset(self, partition: Partition) -> Offset:
        return first_dirty_offset(
            partition.log, partition.storage.directory.cleaned_ends.get(partition.topic_partition)
        )

    # -- compacting --------------------------------------------------------------------------------------------------

    async def _compact(self, due: _Due) -> None:
        partition = due.partition
        cleaner = self._idle.pop() if self._idle else self._new_cleaner()
        cut_record_count = partition.storage.cut_record_count
        try:
            job = await self._job(due)
            async with aclosing(cleaner.clean(job)) as results:
                async for result in results:
                    if not await self._take(partition, result, cut_record_count):
                        return
        except Exception as error:
            self._put_off(partition, error)
        finally:
            self._idle.append(cleaner)

    async def _job(self, due: _Due) -> CleaningJob:
        log = due.partition.log
        aborted = await self._node.workers.run(aborted_before, list(log.segments), due.cleanable.end_offset)
        buffer_bytes = self._number("log.cleaner.dedupe.buffer.size") * self._number(
            "log.cleaner.io.buffer.load.factor"
        )
        thread_count = max(1, self._number("log.cleaner.threads"))
        return job_of(
            log,
            due.cleanable,
            aborted=aborted,
            now_ms=self._node.clock.now_ms(),
            buffer_bytes=int(buffer_bytes / thread_count),
            bytes_per_second_max=self._number("log.cleaner.io.max.bytes.per.second") / thread_count,
        )

    async def _take(self, partition: Partition, result: CleaningResult, cut_record_count: int) -> bool:
        """False: the rest of the pass is of no use. In a task of its own: half a swap must not stay behind."""
        if isinstance(result, CleanedSegment):
            swap = partition.storage.tasks.spawn(partition.swap_in(result), name="swap")
            return await asyncio.shield(swap)
        await partition.note_cleaned(result.cleaned_end_offset, cut_record_count=cut_record_count)
        logger.info(
            "%s: compacted up to offset %d, %d bytes read, %d written",
            partition.topic_partition, result.cleaned_end_offset, result.read_bytes, result.written_bytes,
        )  # fmt: skip
        return True

    def _put_off(self, partition: Partition, error: Exception) -> None:
        """Whatever it is: the other logs are compacted."""
        if partition.deleted:
            return
        if isinstance(error, ProtocolError):
            logger.error("%s cannot be compacted and stays as it is: %s", partition.topic_partition, error)
            self._not_before[_key(partition)] = NEVER
        else:
            logger.warning(
                "compaction of %s failed and is tried again: %s",
                partition.topic_partition, error, exc_info=None if isinstance(error, OSError) else error,
            )  # fmt: skip
            self._not_before[_key(partition)] = self._node.clock.monotonic() + self._rest_seconds()


def _key(partition: Partition) -> tuple[UUID, int]:
    return partition.topic_id, partition.topic_partition.partition
