"""Whether this node is the active controller, how it becomes one, and who is told.

Elected is not enough: a leader takes office once its image holds the log up to its own first record, and the first one of
a new cluster writes what every cluster begins with before anybody else's records.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from ottla.base.errors import ApiError
from ottla.base.owned_tasks import OwnedTasks
from ottla.base.types import NO_EPOCH, NO_NODE, LeaderEpoch
from ottla.broker.quorum.reserve import Reserve
from ottla.metadata.bootstrap import bootstrap_records
from ottla.metadata.controller.decision import Decision
from ottla.metadata.runtime import ControllerRuntime
from ottla.raft.effects import RoleChanged

logger = logging.getLogger(__name__)

FOUND_AGAIN_SECONDS: Final = 0.2


class Office:
    def __init__(
        self, runtime: ControllerRuntime, reserve: Reserve, errands: OwnedTasks, on_taken: Callable[[], None]
    ) -> None:
        """`on_taken` is called besides the listeners when this node has become the active controller."""
        self._runtime = runtime
        self._reserve = reserve
        self._errands = errands
        self._on_taken = on_taken
        self._listeners: list[Callable[[], None]] = []
        self._epoch_told: LeaderEpoch = NO_EPOCH
        self.is_taken = False

    def listen(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def tell_listeners(self) -> None:
        for listener in self._listeners:
            listener()

    def tell_of(self, change: RoleChanged) -> None:
        """Listeners of every change, the log once an epoch."""
        if change.leader_id != NO_NODE and change.epoch > self._epoch_told:
            self._epoch_told = change.epoch
            logger.info("metadata quorum: node %d leads epoch %d", change.leader_id, change.epoch)
        self.tell_listeners()

    def on_caught_up(self) -> None:
        """This node leads, and its image holds the whole log."""
        self._runtime.resume()
        if self._runtime.image.features:
            self._take()
        else:
            self._errands.spawn(self._found(), name="found cluster")

    async def _found(self) -> None:
        """The first records of a new cluster, before anybody else's."""
        while self._runtime.is_leading:
            try:
                await self._runtime.submit(
                    lambda image: Decision(records=[] if image.features else bootstrap_records(), reply=None)
                )
            except ApiError as error:
                logger.error("the new cluster cannot begin: %s", error)
                if not await self._reserve.give_up():
                    await asyncio.sleep(FOUND_AGAIN_SECONDS)
            else:
                self._take()
                return

    def _take(self) -> None:
        self.is_taken = True
        self.tell_listeners()
        self._on_taken()
