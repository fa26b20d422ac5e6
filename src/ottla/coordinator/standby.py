"""A machine that has replayed its partition's log so far, and coordinates nothing yet.

Where another broker leads, it follows: what is committed is replayed a moment after it came. Committed records are never
taken back, so that whoever becomes the leader goes on from there (`take_over`) and has only the rest of the log to replay;
a leader that followed nobody begins with a machine that has replayed nothing. Only an unclean election takes committed
records away, and then the log is read anew from its start.

Called by the runtime; every replica of a partition has its state in memory by this.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Generic

from ottla.base.errors import ApiError
from ottla.base.owned_tasks import OwnedTasks
from ottla.base.types import Offset
from ottla.coordinator.loading import Loading, M, Turns
from ottla.coordinator.machine import FollowedLog, ReplayedLog
from ottla.coordinator.records import RecordTypes

logger = logging.getLogger(__name__)

FOLLOW_SECONDS: Final = 0.25  # Of the records with one key that come meanwhile, only the last is decoded.
RETRY_SECONDS: Final = 0.1


class Standby(Generic[M]):
    def __init__(
        self, *, name: str, log: ReplayedLog, record_types: RecordTypes, new_machine: Callable[[], M], turns: Turns
    ) -> None:
        self._name = name
        self._record_types = record_types
        self._new_machine = new_machine
        self._turns = turns
        self._loading = self._new_loading(log)
        self._followed: FollowedLog | None = None
        self._tasks = OwnedTasks()
        self._replaying: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def _new_loading(self, log: ReplayedLog) -> Loading[M]:
        return Loading(
            name=self._name,
            log=log,
            record_types=self._record_types,
            machine=self._new_machine(),
            turns=self._turns,
        )

    @property
    def machine(self) -> M:
        return self._loading.machine

    @property
    def next_offset(self) -> Offset:
        """Up to where (exclusive) it has replayed."""
        return self._loading.next_offset

    # -- following ---------------------------------------------------------------------------------------------------

    def follow(self, log: FollowedLog) -> None:
        self._followed = log
        log.watch(self._on_changed)
        self._replay_soon()

    def _on_changed(self) -> None:
        assert self._followed is not None
        if self._loading.is_contradicted:
            logger.warning("%s has lost committed records: its coordinator's state is loaded anew", self._name)
            if self._replaying is not None:
                self._replaying.cancel()
            self._loading = self._new_loading(self._followed)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FOLLOW_SECONDS, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._replaying is None:  # Else it goes on to the end by itself.
            self._replay_soon()

    def _replay_soon(self) -> None:
        self._replaying = task = self._tasks.spawn(self._replay(self._loading), name=f"follow {self._name}")
        task.add_done_callback(self._on_replayed)

    def _on_replayed(self, task: "asyncio.Task[None]") -> None:
        if self._replaying is task:
            self._replaying = None

    async def _replay(self, loading: Loading[M]) -> None:
        while True:
            try:
                await loading.run()
            except ApiError as error:
                logger.warning("a coordinator cannot be loaded", extra={"partition": self._name, "reason": str(error)})
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return

    # -- the end of it -----------------------------------------------------------------------------------------------

    async def take_over(self, log: ReplayedLog) -> M:
        """This broker leads now: the rest of the log is replayed, committed or not. The machine is the caller's then."""
        self._stop_following()
        self._loading.hurry_to_end_of(log)
        if self._replaying is not None:
            await asyncio.wait([self._replaying])
        await self._replay(self._loading)
        return self._loading.machine

    def _stop_following(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._followed is not None:
            self._followed.watch(None)
            self._followed = None

    def close(self) -> None:
        self._stop_following()
        if self._replaying is not None:
            self._replaying.cancel()
