"""The active controller's connection to every broker that serves: one that ends is the first sign of a death.

A sign, no more. Whoever answers there still is left to its heartbeats, be it slow or silent; only where nobody listens any
more the process is gone, and fenced at once. An answer may come from a process started anew: the old one's contact is
taken as cut, so that the new one can register without waiting for a session to end. A broker that goes on sending
heartbeats though nobody listens where it says it is (a wrong address, a firewall) is left to them.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from ottla.base.errors import ApiError
from ottla.base.owned_tasks import OwnedTasks
from ottla.base.types import NodeId
from ottla.broker.peers import PeerLost, Peers, Watch
from ottla.metadata.image_parts import BrokerImage
from ottla.wire import api
from ottla.wire.apis import ApiKey

logger = logging.getLogger(__name__)

PROBE_SECONDS_MAX: Final = 0.3
PROBE_VERSION: Final = 0
WATCH_AGAIN_SECONDS: Final = 0.2  # A connection that ends as soon as it is made is not made over and over.
MISTAKES_MAX: Final = 2  # One may be a heartbeat that was on its way when its process died.

OnBroker = Callable[[NodeId, int], None]


class BrokerWatch:
    def __init__(self, *, own_id: NodeId, peers: Peers, on_cut: OnBroker, on_gone: OnBroker) -> None:
        """Both are called with a broker's id and epoch: its connection was lost; nobody listens there any more."""
        self._own_id = own_id
        self._peers = peers
        self._on_cut = on_cut
        self._on_gone = on_gone
        self._epochs: dict[NodeId, int] = {}
        self._gone_counts: dict[NodeId, tuple[int, int]] = {}
        """Epoch, and how often it was taken for gone: serving again in the same epoch it is not."""
        self._watches: dict[NodeId, Watch] = {}
        self._probes: dict[NodeId, asyncio.Task[None]] = {}
        self._tasks = OwnedTasks()

    def follow(self, brokers: Mapping[NodeId, BrokerImage]) -> None:
        """Those that serve are watched, each under its present epoch."""
        wanted = {one.id: one.epoch for one in brokers.values() if not one.fenced and one.id != self._own_id}
        for broker_id, epoch in list(self._epochs.items()):
            if wanted.get(broker_id) != epoch:
                self._forget(broker_id)
        for broker_id, epoch in wanted.items():
            if broker_id in self._epochs:
                continue
            self._epochs[broker_id] = epoch
            if self._gone_count(broker_id, epoch) < MISTAKES_MAX:
                self._watch(broker_id, epoch)
            else:
                _tell_unreachable(brokers[broker_id])

    def close(self) -> None:
        for broker_id in list(self._epochs):
            self._forget(broker_id)

    def _watch(self, broker_id: NodeId, epoch: int) -> None:
        self._watches[broker_id] = self._peers.watch(broker_id, lambda: self._on_lost(broker_id, epoch))

    def _forget(self, broker_id: NodeId) -> None:
        del self._epochs[broker_id]
        if (watch := self._watches.pop(broker_id, None)) is not None:
            watch.close()
        if (probe := self._probes.pop(broker_id, None)) is not None:
            probe.cancel()

    def _gone_count(self, broker_id: NodeId, epoch: int) -> int:
        counted_epoch, count = self._gone_counts.get(broker_id, (epoch, 0))
        return count if counted_epoch == epoch else 0

    def _on_lost(self, broker_id: NodeId, epoch: int) -> None:
        if self._epochs.get(broker_id) == epoch:
            self._probes[broker_id] = self._tasks.spawn(self._probe(broker_id, epoch), name=f"probe {broker_id}")

    async def _probe(self, broker_id: NodeId, epoch: int) -> None:
        self._on_cut(broker_id, epoch)
        try:
            request = api.ApiVersionsRequest()
            await self._peers.ask(
                broker_id, ApiKey.API_VERSIONS, PROBE_VERSION, request, timeout_seconds=PROBE_SECONDS_MAX
            )
            # As a rule it was idle for too long.
            logger.debug("the connection to broker %d was lost; it answers on another", broker_id)
        except PeerLost:
            self._gone_counts[broker_id] = epoch, self._gone_count(broker_id, epoch) + 1
            self._on_gone(broker_id, epoch)
        except ApiError as error:
            logger.info("the connection to broker %d was lost; whether it lives is not known: %s", broker_id, error)
        await asyncio.sleep(WATCH_AGAIN_SECONDS)
        self._watch(broker_id, epoch)


def _tell_unreachable(broker: BrokerImage) -> None:
    where = ", ".join(f"{one.host}:{one.port}" for one in broker.endpoints)
    logger.warning(
        "broker %d is alive, but nobody listens at its address %s as seen from here: mend its advertised.listeners, or what "
        "lies between; until then its death shows only when its session ends", broker.id, where
    )  # fmt: skip
