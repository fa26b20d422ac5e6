"""The smaller parts: effects in order, fsyncs for many, who waits for commits, the reserve."""

import asyncio
import errno

import pytest

from ottla.base.owned_tasks import OwnedTasks
from ottla.broker.quorum.commits import Commits
from ottla.broker.quorum.effect_queue import EffectQueue
from ottla.broker.quorum.flushing import Flushing
from ottla.broker.quorum.reserve import RESERVE_BYTES, RESERVE_FROM_BYTES, Reserve
from ottla.broker.quorum.sight import Sight
from ottla.log.partition_log import SidecarsUnsaved
from ottla.metadata.image import MetadataImage
from ottla.metadata.metadata_log import CommitFailed
from ottla.raft.effects import Committed, Flush, TruncateLog
from sim.world import World
from tests.unit.fakes import FakeWorkers


def play(scene):
    World(1, shuffle=False).run(scene)


# ---- effects ----


class Queue:
    """Truncations are waited for until they are let go; everything else happens at once."""

    def __init__(self):
        self.done = []
        self.failures = []
        self.errors = []
        self.reserves = 0
        self.gate = asyncio.Event()
        self.sight = Sight(MetadataImage())
        self.queue = EffectQueue(
            perform=self._perform,
            make_room=self._make_room,
            on_failed=self.failures.append,
            sight=self.sight,
            tasks=OwnedTasks(),
        )

    def _perform(self, effect):
        if isinstance(effect, TruncateLog):
            return self.queue.until_written(lambda: self._write(effect))
        self.done.append(effect)
        return None

    async def _write(self, effect):
        await self.gate.wait()
        if self.errors:
            raise self.errors.pop(0)
        self.done.append(effect)

    async def _make_room(self):
        self.reserves, had = 0, self.reserves
        return had > 0


FIRST, SLOW, LAST = Committed(high_watermark=1), TruncateLog(to_offset=2), Committed(high_watermark=3)


def test_what_must_be_waited_for_holds_up_all_behind_it():
    async def scene():
        queue = Queue()
        queue.queue.push([FIRST])
        assert queue.done == [FIRST]
        assert queue.queue.is_idle
        queue.queue.push([SLOW])
        queue.queue.push([LAST])
        await asyncio.sleep(1)
        assert queue.done == [FIRST]
        assert not queue.queue.is_idle
        queue.gate.set()
        await asyncio.sleep(1)
        assert queue.done == [FIRST, SLOW, LAST]
        assert queue.queue.is_idle

    play(scene())


@pytest.mark.parametrize("reserves", [0, 1])
def test_a_full_disk_is_tried_again_in_its_place(reserves):
    async def scene():
        queue = Queue()
        queue.gate.set()
        queue.reserves = reserves
        queue.errors = [OSError(errno.ENOSPC, "full")] * 3
        queue.queue.push([SLOW, LAST])
        await asyncio.sleep(0.1)
        queue.sight.on_leader_heard(0)
        assert queue.sight.is_lost
        await asyncio.sleep(5)
        queue.sight.on_leader_heard(0)
        assert not queue.sight.is_lost
        assert queue.done == [SLOW, LAST]
        assert queue.failures == []

    play(scene())


def test_any_other_error_is_final():
    async def scene():
        queue = Queue()
        queue.gate.set()
        error = OSError(errno.EIO, "broken")
        queue.errors = [error]
        queue.queue.push([SLOW, LAST])
        await asyncio.sleep(5)
        assert queue.failures == [error]
        assert queue.done == []

    play(scene())


def test_a_stopped_queue_does_not_wait_for_room_any_more():
    async def scene():
        queue = Queue()
        queue.gate.set()
        queue.errors = [OSError(errno.ENOSPC, "full")] * 1000
        queue.queue.push([SLOW, LAST])
        await asyncio.sleep(1)
        queue.queue.stop()
        await asyncio.sleep(1)
        left = len(queue.errors)
        await asyncio.sleep(5)
        assert len(queue.errors) == left
        assert queue.done == []

    play(scene())


# ---- fsyncs ----


class Disk:
    def __init__(self):
        self.upkeep = asyncio.Lock()
        self.errors = []
        self.sync_count = 0

    async def sync(self):
        self.sync_count += 1
        await asyncio.sleep(0.1)
        if self.errors:
            raise self.errors.pop(0)


class Flushes:
    def __init__(self):
        self.disk = Disk()
        self.flushed, self.failures = [], []
        self.sight = Sight(MetadataImage())
        self.flushing = Flushing(
            self.disk,
            OwnedTasks(),
            on_flushed=lambda flush: self.flushed.append(flush.end_offset),
            on_failed=self.failures.append,
            sight=self.sight,
        )

    def ask(self, end_offset):
        self.flushing.ask(Flush(end_offset=end_offset, truncation_count=0))


def test_one_fsync_serves_all_who_asked_before_it():
    async def scene():
        flushes = Flushes()
        flushes.ask(1)
        await asyncio.sleep(0.05)
        for end_offset in (2, 3, 4):
            flushes.ask(end_offset)
        await asyncio.sleep(1)
        assert flushes.flushed == [1, 4]
        assert flushes.disk.sync_count == 2
        flushes.ask(5)
        await asyncio.sleep(1)
        assert flushes.flushed == [1, 4, 5]

    play(scene())


def test_records_that_are_synced_without_their_indexes_are_tried_again():
    async def scene():
        flushes = Flushes()
        flushes.disk.errors = [SidecarsUnsaved(errno.ENOSPC, "full")]
        flushes.ask(1)
        await asyncio.sleep(0.15)
        flushes.sight.on_leader_heard(0)
        assert flushes.sight.is_lost
        await asyncio.sleep(1)
        flushes.sight.on_leader_heard(0)
        assert not flushes.sight.is_lost
        assert flushes.flushed == [1]
        assert flushes.failures == []

    play(scene())


def test_a_failed_fsync_is_never_tried_again():
    async def scene():
        flushes = Flushes()
        flushes.disk.errors = [OSError(errno.EIO, "broken")]
        flushes.ask(1)
        await asyncio.sleep(1)
        assert flushes.flushed == []
        assert len(flushes.failures) == 1
        assert flushes.disk.sync_count == 1

    play(scene())


# ---- commits ----


def test_waiters_are_told_in_the_order_of_offsets():
    async def scene():
        commits = Commits(high_watermark=5)
        await commits.wait(4)
        waiting = [asyncio.ensure_future(commits.wait(offset)) for offset in (9, 5, 7)]
        await asyncio.sleep(0.1)
        commits.advance(8)
        await asyncio.sleep(0.1)
        assert [task.done() for task in waiting] == [False, True, True]
        commits.fail("deposed")
        with pytest.raises(CommitFailed, match="deposed"):
            await waiting[0]

    play(scene())


# ---- the reserve ----


def test_the_reserve_is_kept_given_up_once_and_made_again_when_there_is_room():
    async def scene():
        world = World(1)
        world.disk.make_directory("/m")
        reserve = Reserve(world.disk, FakeWorkers(), "/m")
        world.disk.capacity_bytes = RESERVE_FROM_BYTES - 1
        await reserve.keep()
        assert not world.disk.exists("/m/reserve")
        world.disk.capacity_bytes = None
        await reserve.keep()
        assert len(world.disk.read("/m/reserve")) == RESERVE_BYTES
        assert await reserve.give_up()
        assert not await reserve.give_up()
        await reserve.keep()
        assert world.disk.exists("/m/reserve")

    play(scene())


def test_a_reserve_that_cannot_be_removed_is_told_and_makes_no_room(caplog):
    async def scene():
        world = World(1)
        world.disk.make_directory("/m")
        reserve = Reserve(world.disk, FakeWorkers(), "/m")
        await reserve.keep()
        world.disk.fail_at(1)
        assert not await reserve.give_up()
        assert "cannot be given up" in caplog.text
        assert await reserve.give_up()

    play(scene())
