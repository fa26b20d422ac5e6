"""Chores that fail are told in the log and run again: the world's mistakes in a line, ours with a traceback."""

import asyncio
import errno
from pathlib import Path

import pytest

from ottla.broker.housekeeping import Housekeeping
from ottla.server.real_disk import RealFile
from tests.unit.broker.real_node import RealNode
from tests.unit.fakes import FakeClock


@pytest.mark.parametrize(
    ("error", "has_traceback"),
    [(OSError(errno.ENOSPC, "No space left on device"), False), (ValueError("a mistake of ours"), True)],
)
def test_a_chore_that_fails_runs_again(
    error: Exception, has_traceback: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        node = await RealNode.open(tmp_path, {}, FakeClock())
        housekeeping = Housekeeping(node.opened)
        runs = asyncio.Semaphore(0)

        async def sweep_the_floor() -> None:
            runs.release()
            raise error

        housekeeping._every(0.001, sweep_the_floor)
        async with asyncio.timeout(10):
            for _ in range(3):
                await runs.acquire()
        await housekeeping.stop()
        await node.close()

    asyncio.run(run())
    told = [record for record in caplog.records if "sweep_the_floor failed" in record.message]
    assert len(told) >= 2
    assert all((record.exc_info is not None) is has_traceback for record in told)


@pytest.mark.parametrize(("has_room", "is_full_then"), [(True, False), (False, True)])
def test_a_full_disk_that_nobody_writes_to_is_tried_by_ourselves(
    has_room: bool, is_full_then: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        node = await RealNode.open(tmp_path, {}, FakeClock())
        (storage,) = node.opened.storages
        told = []
        storage.on_changed = lambda: told.append(storage.is_full)
        storage.on_error(OSError(errno.ENOSPC, "No space left on device"))
        if not has_room:

            def fail(self: object, data: bytes, position: int) -> None:
                raise OSError(errno.ENOSPC, "No space left on device")

            monkeypatch.setattr(RealFile, "pwrite", fail)
        await Housekeeping(node.opened).relieve_full_disks()
        assert storage.is_full is is_full_then
        assert told == ([True, False] if has_room else [True])
        assert not (tmp_path / "room").exists()
        monkeypatch.undo()
        await node.close()

    asyncio.run(run())
