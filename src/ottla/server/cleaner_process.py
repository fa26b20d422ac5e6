"""Compaction in a process of its own: the broker's side. Jobs go in as pickles, results come out one by one.

The process is started by its first job and ended when there is nothing to do. It touches `.cleaned` files alone; the
log changes in the broker. Ending it at any moment is safe, and so it ends when a job is given up.
"""

import asyncio
import pickle
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from typing import Any

from ottla.broker.compaction import CleaningResult
from ottla.log.compaction.job import CleaningDone, CleaningJob
from ottla.server.cleaner_child import LENGTH, frame


class CleanerProcess:
    """Implements `broker.compaction.Cleaner`."""

    def __init__(self) -> None:
        self._process: Process | None = None

    async def clean(self, job: CleaningJob) -> AsyncGenerator[CleaningResult, None]:
        is_done = False
        try:
            process = self._process or await self._start()
            assert process.stdin is not None
            process.stdin.write(frame(job))
            while not is_done:
                result = await self._receive(process)
                is_done = isinstance(result, CleaningDone)
                yield result
        finally:
            if not is_done:
                await self.close()

    async def _start(self) -> Process:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "ottla.server.cleaner_child", stdin=PIPE, stdout=PIPE
        )
        return self._process

    async def _receive(self, process: Process) -> CleaningResult:
        assert process.stdout is not None
        try:
            (size,) = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))
            result: Any = pickle.loads(await process.stdout.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            raise OSError("the cleaner's process has ended") from None
        if isinstance(result, Exception):
            raise result
        answer: CleaningResult = result
        return answer

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()
