"""Who waits for offsets to be committed."""

import asyncio
import heapq
from itertools import count

from ottla.base.types import Offset
from ottla.metadata.metadata_log import CommitFailed


class Commits:
    def __init__(self, high_watermark: Offset) -> None:
        self._high_watermark = high_watermark
        self._waiting: list[tuple[Offset, int, asyncio.Future[None]]] = []
        self._numbers = count()

    async def wait(self, offset: Offset) -> None:
        if offset < self._high_watermark:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (offset, next(self._numbers), future))
        await future

    def advance(self, high_watermark: Offset) -> None:
        self._high_watermark = high_watermark
        while self._waiting and self._waiting[0][0] < high_watermark:
            _, _, future = heapq.heappop(self._waiting)
            if not future.done():
                future.set_result(None)

    def fail(self, reason: str) -> None:
        """Nobody here will learn what becomes of what is not committed yet."""
        waiting, self._waiting = self._waiting, []
        for _, _, future in waiting:
            if not future.done():
                future.set_exception(CommitFailed(reason))
