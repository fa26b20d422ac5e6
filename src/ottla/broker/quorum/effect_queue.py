"""Effects, carried out one after the other in the order they were given; inline while none has to be waited for.

An effect that must be waited for comes back from `perform` as a coroutine, and all behind it wait with it. What a full
disk refuses is tried again in its place: the reserve is given up for it first. Any other failure is final.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Final

from ottla.base.owned_tasks import OwnedTasks
from ottla.broker.quorum.sight import Sight
from ottla.raft.effects import Effect
from ottla.replica.storage import is_passing

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 0.2

Work = Coroutine[Any, Any, None]


class EffectQueue:
    def __init__(
        self,
        *,
        perform: Callable[[Effect], Work | None],
        make_room: Callable[[], Awaitable[bool]],
        on_failed: Callable[[OSError], None],
        sight: Sight,
        tasks: OwnedTasks,
    ) -> None:
        self._perform = perform
        self._sight = sight
        self._make_room = make_room
        self._on_failed = on_failed
        self._tasks = tasks
        self._effects: deque[Effect] = deque()
        self._is_busy = False
        self._is_stopped = False

    @property
    def is_idle(self) -> bool:
        """Whether all that was ever ordered has been carried out."""
        return not self._is_busy and not self._effects

    def push(self, effects: Iterable[Effect]) -> None:
        self._effects.extend(effects)
        if not self._is_busy:
            self._carry_out()

    def stop(self) -> None:
        """Nothing more is carried out."""
        self._effects.clear()
        self._is_busy = self._is_stopped = True

    def _carry_out(self) -> None:
        self._is_busy = True
        while self._effects:
            work = self._perform(self._effects.popleft())
            if work is not None:
                self._tasks.spawn(self._wait_for(work), name="quorum effect")
                return
        self._is_busy = self._is_stopped

    async def _wait_for(self, work: Work) -> None:
        try:
            await work
        except OSError as error:
            self._on_failed(error)
        else:
            if not self._is_stopped:
                self._carry_out()

    async def until_written(self, write: Callable[[], Awaitable[None]]) -> None:
        """`OSError`: not for want of space."""
        has_complained = False
        try:
            while not self._is_stopped:
                try:
                    return await write()
                except OSError as error:
                    if not is_passing(error):
                        raise
                    if not has_complained:
                        logger.error("the metadata quorum waits for room on its disk: %s", error)
                        has_complained = True
                        self._sight.on_wait()
                if not await self._make_room():
                    await asyncio.sleep(RETRY_SECONDS)
        finally:
            if has_complained:
                self._sight.on_room()
