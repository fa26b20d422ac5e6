"""fsyncs of the metadata log: one at a time, in a worker, each for all who asked before it began."""

import asyncio
from collections.abc import Callable
from typing import Final

from ottla.base.owned_tasks import OwnedTasks
from ottla.broker.quorum.sight import Sight
from ottla.broker.quorum.store import QuorumStore
from ottla.log.partition_log import SidecarsUnsaved
from ottla.raft.effects import Flush

RETRY_SECONDS: Final = 0.2


class Flushing:
    def __init__(
        self,
        store: QuorumStore,
        tasks: OwnedTasks,
        *,
        on_flushed: Callable[[Flush], None],
        on_failed: Callable[[OSError], None],
        sight: Sight,
    ) -> None:
        self._store = store
        self._sight = sight
        self._tasks = tasks
        self._on_flushed = on_flushed
        self._on_failed = on_failed
        self._wanted: Flush | None = None
        self._is_running = False

    def ask(self, flush: Flush) -> None:
        self._wanted = flush
        if not self._is_running:
            self._is_running = True
            self._tasks.spawn(self._run(), name="quorum fsync")

    def stop(self) -> None:
        """Nobody waits any more."""
        self._wanted = None

    async def _run(self) -> None:
        while self._wanted is not None:
            try:
                flushed = await self._flush()
            except SidecarsUnsaved:  # The records are on disk; not so an index beside them, on a full disk say.
                self._sight.on_wait()
                await asyncio.sleep(RETRY_SECONDS)
                self._sight.on_room()
                continue
            except OSError as error:
                self._on_failed(error)
                return
            if flushed is not None:
                self._on_flushed(flushed)
        self._is_running = False

    async def _flush(self) -> Flush | None:
        async with self._store.upkeep:
            wanted = self._wanted
            if wanted is None:
                return None
            await self._store.sync()
            # What was asked for while the disk was busy waits for the next one.
            if self._wanted is wanted:
                self._wanted = None
            return wanted
