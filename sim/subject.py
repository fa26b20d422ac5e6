"""What a scenario is played with: one node or a cluster, and all that may happen to it while clients go on.

A scenario that knows only `Subject` is played with both.
"""

import asyncio
import errno
from collections import Counter
from collections.abc import Mapping
from typing import Final, Protocol

from ottla.base.types import NodeId
from ottla.broker.node import AddressOf
from ottla.broker.peers import Peers
from ottla.wire.apis import ApiKey
from sim.client import VERSIONS, Client, SimulatedClient
from sim.disk_nodes import Kept
from sim.network import CALM as CALM_NETWORK
from sim.node import SimulatedNode
from sim.peers import CALM as CALM_PEERS
from sim.peers import PeerFaults, SimulatedPeers
from sim.world import World

SYNCED: Final = {"log.flush.interval.messages": "1"}


class Subject(Protocol):
    world: World
    hits: Counter[str]
    replica_count: int
    """Of every topic."""

    @property
    def clock_spread_ms(self) -> int:
        """How far the dates of its nodes lie apart."""
        ...

    def new_client(self, name: str, versions: Mapping[ApiKey, int] = VERSIONS) -> Client: ...

    async def start(self) -> None:
        """Returns when clients are served."""
        ...

    async def stop(self) -> None: ...

    async def trouble(self, seconds: float) -> None:
        """Faults begin for about so long; when it returns they have ended."""
        ...

    def calm_down(self) -> None:
        """From the next start on nothing is late or lost any more."""
        ...


class TroubledNode:
    """One node that is stopped and killed, and that may lose messages to itself. Implements `Subject`."""

    replica_count = 1
    clock_spread_ms = 0

    def __init__(
        self,
        world: World,
        settings: Mapping[str, str],
        *,
        death_count: int,
        is_power_safe: bool,
        has_disk_errors: bool = False,
        peer_faults: PeerFaults | None = None,
    ) -> None:
        """`is_power_safe`: every acknowledgement waits for an fsync, and the power may go."""
        self.world = world
        self.hits: Counter[str] = Counter()
        self._death_count = death_count
        self._is_power_safe = is_power_safe
        self._has_disk_errors = has_disk_errors
        self._peer_faults = peer_faults
        self.node = SimulatedNode(world, {**settings, **(SYNCED if is_power_safe else {})}, self._connect_peers)

    def _connect_peers(self, node_id: NodeId, loopback: Peers, address_of: AddressOf) -> Peers:
        if self._peer_faults is None:
            return loopback
        return SimulatedPeers(loopback, self._peer_faults, self.world.stream("peers"), self.world.trace)

    def new_client(self, name: str, versions: Mapping[ApiKey, int] = VERSIONS) -> Client:
        return SimulatedClient(self.node, name, versions)

    async def start(self) -> None:
        await self.node.start()

    async def stop(self) -> None:
        await self.node.stop()

    def calm_down(self) -> None:
        self.world.network.faults = CALM_NETWORK
        self._peer_faults = None if self._peer_faults is None else CALM_PEERS

    async def trouble(self, seconds: float) -> None:
        chance = self.world.random
        for _ in range(self._death_count):
            await asyncio.sleep(chance.random() * seconds / self._death_count)
            match chance.randrange(4 if self._has_disk_errors else 3):
                case 0:
                    await self.node.stop()
                    self.hits["clean restart"] += 1
                    self.hits["power lost after a clean stop"] += self.node.maybe_lose_power()
                case 1:
                    self._kill("killed between two instructions")
                case 2:
                    self.node.die_at(chance.randint(0, 15))
                    await asyncio.sleep(chance.random() * 3)
                    self._kill("killed inside a disk call" if not self.node.is_alive else "killed while idle")
                case _:
                    self.world.disk.fail_at(chance.randint(0, 30), chance.choice((errno.EIO, errno.ENOSPC)))
                    await asyncio.sleep(chance.random() * 6)
                    self._kill("killed after a disk error")
            await asyncio.sleep(chance.random() * 2)
            await self.node.start()

    def _kill(self, how: str) -> None:
        kept = self.world.random.choice(tuple(Kept)) if self._is_power_safe else Kept.EVERYTHING
        self.node.kill(kept)
        self.hits[f"{how}, {kept.value} kept"] += 1
