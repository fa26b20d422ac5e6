"""A cluster of three or more nodes under every fault that it must bear. Implements `Subject`."""

import asyncio
from collections.abc import Mapping
from typing import Final

from ottla.wire.apis import ApiKey
from sim.client import VERSIONS, Client
from sim.cluster import SimulatedCluster
from sim.cluster_client import ClusterClient
from sim.cluster_faults import ClusterFaults
from sim.network import CALM as CALM_NETWORK
from sim.network import NetworkFaults
from sim.peer_network import CALM, LinkFaults
from sim.world import World

REPLICAS_MAX: Final = 3
MIN_ISR: Final = 2
FAULT_EVERY_SECONDS: Final = 1.5
LOOK_EVERY_SECONDS: Final = 0.05
SETTINGS: Final = {
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "2000",
    "replica.lag.time.max.ms": "2000",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
}


class TroubledCluster:
    def __init__(self, world: World, node_count: int, settings: Mapping[str, str] | None = None) -> None:
        self.world = world
        self.replica_count = min(node_count, REPLICAS_MAX)
        self.cluster = SimulatedCluster(
            world,
            range(1, node_count + 1),
            {**SETTINGS, **(settings or {})},
            client_faults=NetworkFaults(reset_probability=0.001),
        )
        self.hits = self.cluster.hits
        self._faults = ClusterFaults(self.cluster, min_isr=MIN_ISR)

    def new_client(self, name: str, versions: Mapping[ApiKey, int] = VERSIONS) -> Client:
        return ClusterClient(self.cluster, name, versions)

    async def start(self) -> None:
        await self.cluster.start()

    async def stop(self) -> None:
        await self.cluster.stop()

    async def trouble(self, seconds: float) -> None:
        chance = self.world.random
        self.cluster.network.faults = LinkFaults(
            delay_seconds_max=chance.choice((0.002, 0.02, 0.1)),
            straggler_probability=chance.choice((0.0, 0.02)),
            straggler_seconds_max=1.0,
            loss_probability=chance.choice((0.0, 0.01)),
            repetition_probability=chance.choice((0.0, 0.02)),
            reset_probability=chance.choice((0.0, 0.005)),
        )
        faults = []
        end = self.world.clock.monotonic() + seconds
        while self.world.clock.monotonic() < end:
            await asyncio.sleep(chance.random() * FAULT_EVERY_SECONDS)
            faults.append(asyncio.ensure_future(chance.choice(self._faults.all)()))
        self.cluster.network.faults = CALM
        await asyncio.gather(*faults)

    def calm_down(self) -> None:
        for node in self.cluster.nodes.values():
            node.machine.network.faults = CALM_NETWORK

    async def wait_in_sync(self, topic: str) -> None:
        """Every copy, as the newest metadata says."""
        while not self._is_in_sync(topic):  # noqa: ASYNC110 (seen from outside: nobody would set an event)
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    def _is_in_sync(self, topic: str) -> bool:
        partitions = self.cluster.partitions(topic)
        return bool(partitions) and all(
            len(partition.isr) == len(partition.replicas) and partition.leader in partition.isr
            for partition in partitions
        )
