"""The active controller's connection to every broker that serves: one that ends is the first sign of a death.

A sign, no more. Whoever answers there still is left to its heartbeats, be it slow or silent; only where nobody listens any
more, and no connection of the broker's own is open any more, the process is gone, and fenced at once: the kernel of one
that was killed refuses and closes at once, in any order, a firewall or a wrong address only refuses (`callers`). An answer
may come from a process started anew: the old one's contact is taken as cut, so that the new one can register without
waiting for a session to end. A controller that was just elected may know of no such connection yet and take a refusal for
a death; a broker that goes on sending heartbeats all the same is left to them (`MISTAKES_MAX`).
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from ottla.base.errors import ApiError
from ottla.base.owned_tasks import OwnedTasks
from ottla.base.types import NodeId
from ottla.broker.callers import Callers
from ottla.broker.peers import PeerLost, Peers, Watch
from ottla.metadata.image_parts import BrokerImage
from ottla.wire import api
from ottla.wire.apis import ApiKey

logger = logging.getLogger(__name__)

PROBE_SECONDS_MAX: Final = 0.3
PROBE_VERSION: Final = 0
WATCH_AGAIN_SECONDS: Final = 0.2  # A connection that ends as soon as it is made is not made over and over.
DYING_SECONDS_MAX: Final = 1.0  # Between the first sign of a death and the last.
MISTAKES_MAX: Final = 2  # One may be a heartbeat that was on its way when its process died.

OnBroker = Callable[[NodeId, int], None]


class BrokerWatch:
    def __init__(self, *, own_id: NodeId, peers: Peers, callers: Callers, on_cut: OnBroker, on_gone: OnBroker) -> None:
        """Both are called with a broker's id and epoch: its connection was lost; nobody listens there any more."""
        self._own_id = own_id
        self._peers = peers
        self._callers = callers
        self._on_cut = on_cut
        self._on_gone = on_gone
        self._brokers: dict[NodeId, BrokerImage] = {}
        self._gone_counts: dict[NodeId, tuple[int, int]] = {}
        """Epoch, and how often it was taken for gone: serving again in the same epoch it is not."""
        self._watches: dict[NodeId, Watch] = {}
        self._probes: dict[NodeId, asyncio.Task[None]] = {}
        self._tasks = OwnedTasks()

    def follow(self, brokers: Mapping[NodeId, BrokerImage]) -> None:
        """Those that serve are watched, each under its present epoch."""
        wanted = {one.id: one for one in brokers.values() if not one.fenced and one.id != self._own_id}
        for broker_id, broker in list(self._brokers.items()):
            if broker_id not in wanted or wanted[broker_id].epoch != broker.epoch:
                self._forget(broker_id)
        for broker in wanted.values():
            if broker.id in self._brokers:
                continue
            self._brokers[broker.id] = broker
            if self._gone_count(broker) < MISTAKES_MAX:
                self._watch(broker)
            else:
                _tell_unreachable(broker)

    def close(self) -> None:
        for broker_id in list(self._brokers):
            self._forget(broker_id)

    def _watch(self, broker: BrokerImage) -> None:
        self._watches[broker.id] = self._peers.watch(broker.id, lambda: self._on_lost(broker))

    def _forget(self, broker_id: NodeId) -> None:
        del self._brokers[broker_id]
        if (watch := self._watches.pop(broker_id, None)) is not None:
            watch.close()
        if (probe := self._probes.pop(broker_id, None)) is not None:
            probe.cancel()

    def _gone_count(self, broker: BrokerImage) -> int:
        epoch, count = self._gone_counts.get(broker.id, (broker.epoch, 0))
        return count if epoch == broker.epoch else 0

    def _on_lost(self, broker: BrokerImage) -> None:
        if self._brokers.get(broker.id) is broker:
            self._probes[broker.id] = self._tasks.spawn(self._probe(broker), name=f"probe {broker.id}")

    async def _probe(self, broker: BrokerImage) -> None:
        self._on_cut(broker.id, broker.epoch)
        while await self._is_refused(broker.id):
            if not self._callers.is_there(broker.id):
                self._gone_counts[broker.id] = broker.epoch, self._gone_count(broker) + 1
                self._on_gone(broker.id, broker.epoch)
                break
            await self._wait_left(broker)
            self._on_cut(broker.id, broker.epoch)
        await asyncio.sleep(WATCH_AGAIN_SECONDS)
        self._watch(broker)

    async def _is_refused(self, broker_id: NodeId) -> bool:
        try:
            request = api.ApiVersionsRequest()
            await self._peers.ask(
                broker_id, ApiKey.API_VERSIONS, PROBE_VERSION, request, timeout_seconds=PROBE_SECONDS_MAX
            )
            # As a rule it was idle for too long.
            logger.debug("the connection to broker %d was lost; it answers on another", broker_id)
        except PeerLost:
            return True
        except ApiError as error:
            logger.info("the connection to broker %d was lost; whether it lives is not known: %s", broker_id, error)
        return False

    async def _wait_left(self, broker: BrokerImage) -> None:
        """As a rule it is dying, and the last of its connections closes in a moment."""
        with suppress(TimeoutError):
            async with asyncio.timeout(DYING_SECONDS_MAX):
                await self._callers.wait_left(broker.id)
                return
        _tell_unreachable(broker)
        await self._callers.wait_left(broker.id)


def _tell_unreachable(broker: BrokerImage) -> None:
    where = ", ".join(f"{one.host}:{one.port}" for one in broker.endpoints)
    logger.warning(
        "broker %d is alive, but nobody listens at its address %s as seen from here: mend its advertised.listeners, or what "
        "lies between", broker.id, where
    )  # fmt: skip
