"""Chores that fail are told in the log and run again: the world's mistakes in a line, ours with a traceback."""

import asyncio
import errno
from pathlib import Path

import pytest

from ottla.broker.housekeeping import Housekeeping
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
