"""Which of the other brokers are still there, asked just now, and which went a moment ago.

Clients ask for leaders and coordinators when they have lost one, a millisecond later and often before anybody has decided
who follows it. Who is told the old name then asks again only with its next timer, up to a second later: it is worth
finding out whether the one that would be named still listens, and waiting for its successor if not.

A broker stays listed for a moment after it was fenced. librdkafka lets go of a broker that is listed no more before it
gives that broker's partitions to their new leaders, and those then wait for a timer as well.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from ottla.base.clock import Clock
from ottla.base.errors import ApiError
from ottla.base.types import NO_NODE, NodeId
from ottla.broker.peers import PeerLost, Peers
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.wire import api
from ottla.wire.apis import ApiKey

PROBE_SECONDS_MAX: Final = 0.1
SUCCESSOR_LOOK_SECONDS: Final = 0.01
SUCCESSOR_LOOKS_MAX: Final = 50
IN_VAIN_SECONDS: Final = 2.0
"""One that is found gone, and that nobody replaces, is only out of our reach: for so long it is not waited for again."""
LISTED_SECONDS: Final = 0.5


class Neighbours:
    def __init__(self, node_id: NodeId, image: MetadataImage, peers: Peers, clock: Clock) -> None:
        self._node_id = node_id
        self._image = image
        self._peers = peers
        self._clock = clock
        self._probes: dict[NodeId, asyncio.Task[bool]] = {}
        self._alive = {broker.id for broker in image.brokers.values() if not broker.fenced}
        self._lost_at: dict[NodeId, float] = {}
        self._in_vain_at: dict[NodeId, float] = {}

    def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        for broker_id in delta.brokers_changed:
            broker = image.brokers.get(broker_id)
            if broker is not None and not broker.fenced:
                self._alive.add(broker_id)
            elif broker_id in self._alive:
                self._alive.remove(broker_id)
                if broker is not None and not broker.in_controlled_shutdown:  # Others led before that one went.
                    self._lost_at[broker_id] = self._clock.monotonic()

    def lost_lately(self) -> set[NodeId]:
        """Those that were fenced a moment ago; their addresses are known still."""
        since = self._clock.monotonic() - LISTED_SECONDS
        self._lost_at = {broker_id: at for broker_id, at in self._lost_at.items() if at > since}
        return {broker_id for broker_id in self._lost_at if broker_id in self._image.brokers} - self._alive

    async def wait_replaced(self, broker_ids: Iterable[NodeId]) -> bool:
        """Whether one of them is gone. Then others have what it had when this returns, unless that takes too long."""
        since = self._clock.monotonic() - IN_VAIN_SECONDS
        self._in_vain_at = {broker_id: at for broker_id, at in self._in_vain_at.items() if at > since}
        others = {one for one in broker_ids if one not in (self._node_id, NO_NODE)} - self._in_vain_at.keys()
        if not others:
            return False
        answers = await asyncio.gather(*(self._is_gone(one) for one in others))
        gone = [one for one, is_gone in zip(others, answers, strict=True) if is_gone]
        for _ in range(SUCCESSOR_LOOKS_MAX):
            if all(self._is_fenced(one) for one in gone):
                break
            await asyncio.sleep(SUCCESSOR_LOOK_SECONDS)
        else:
            now = self._clock.monotonic()
            self._in_vain_at |= {one: now for one in gone if not self._is_fenced(one)}
        return bool(gone)

    def _is_fenced(self, broker_id: NodeId) -> bool:
        broker = self._image.brokers.get(broker_id)
        return broker is None or broker.fenced

    async def _is_gone(self, broker_id: NodeId) -> bool:
        """Whether nobody listens there any more. All who want to know at a time ask once."""
        probe = self._probes.get(broker_id)
        if probe is None:
            probe = self._probes[broker_id] = asyncio.ensure_future(self._probe(broker_id))
            probe.add_done_callback(lambda _: self._probes.pop(broker_id))
        return await asyncio.shield(probe)

    async def _probe(self, broker_id: NodeId) -> bool:
        request = api.ApiVersionsRequest()
        try:
            await self._peers.ask(broker_id, ApiKey.API_VERSIONS, 0, request, timeout_seconds=PROBE_SECONDS_MAX)
        except PeerLost:
            return True
        except ApiError:
            return False  # Silent: whether it lives is not for us to say.
        return False
