"""A cluster of three or more nodes under every fault that it must bear. Implements `Subject`."""

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.wire.apis import ApiKey
from sim.client import VERSIONS, Client
from sim.cluster import SimulatedCluster
from sim.cluster_client import ClusterClient
from sim.cluster_faults import ClusterFaults
from sim.network import CALM as CALM_NETWORK
from sim.network import NetworkFaults
from sim.peer_network import CALM, LinkFaults
from sim.subject import SYNCED
from sim.world import World

NODE_COUNTS: Final = (3, 3, 3, 4, 5)
POWER_SAFE_PROBABILITY: Final = 0.3
SMALL_FETCHES_PROBABILITY: Final = 0.3
OUTAGE_PROBABILITY: Final = 0.7
REPLICAS_MAX: Final = 3
MIN_ISR: Final = 2
FAULT_EVERY_SECONDS_MAX: Final = 1.5
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
SMALL_FETCHES: Final = {"replica.fetch.max.bytes": "600", "replica.fetch.response.max.bytes": "600"}


class Shape(NamedTuple):
    node_count: int
    is_power_safe: bool
    """Every record is synced before it counts, and any number of machines may lose power at a time."""
    has_small_fetches: bool = False
    """A follower that lost its log needs many rounds to be where it was."""

    @classmethod
    def of(cls, world: World) -> "Shape":
        chance = world.stream("shape")
        return cls(
            chance.choice(NODE_COUNTS),
            chance.random() < POWER_SAFE_PROBABILITY,
            chance.random() < SMALL_FETCHES_PROBABILITY,
        )

    @property
    def settings(self) -> dict[str, str]:
        return {**(SYNCED if self.is_power_safe else {}), **(SMALL_FETCHES if self.has_small_fetches else {})}


class TroubledCluster:
    def __init__(
        self,
        world: World,
        shape: Shape,
        settings: Mapping[str, str] | None = None,
        *,
        fault_every_seconds_max: float = FAULT_EVERY_SECONDS_MAX,
    ) -> None:
        self.world = world
        self._fault_every_seconds_max = fault_every_seconds_max
        self.replica_count = min(shape.node_count, REPLICAS_MAX)
        self.cluster = SimulatedCluster(
            world,
            range(1, shape.node_count + 1),
            {**SETTINGS, **shape.settings, **(settings or {})},
            client_faults=NetworkFaults(reset_probability=0.001),
        )
        self.hits = self.cluster.hits
        self.hits[f"{shape.node_count} nodes"] += 1
        self.hits[f"every record synced: {'yes' if shape.is_power_safe else 'no'}"] += 1
        self.hits["followers in small steps"] += shape.has_small_fetches
        self.shape = shape
        self.faults = ClusterFaults(
            self.cluster, replica_count=self.replica_count, min_isr=MIN_ISR, is_power_safe=shape.is_power_safe
        )

    @property
    def clock_spread_ms(self) -> int:
        dates = [node.machine.clock.now_ms() for node in self.cluster.nodes.values()]
        return max(dates) - min(dates)

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
        faults = [asyncio.ensure_future(self._maybe_lose_power(seconds))]
        end = self.world.clock.monotonic() + seconds
        while self.world.clock.monotonic() < end:
            await asyncio.sleep(chance.random() * self._fault_every_seconds_max)
            faults.append(asyncio.ensure_future(chance.choice(self.faults.drawn)()))
        self.cluster.network.faults = CALM
        await asyncio.gather(*faults)

    async def _maybe_lose_power(self, seconds: float) -> None:
        chance = self.world.stream("power")
        if self.shape.is_power_safe and chance.random() < OUTAGE_PROBABILITY:
            await asyncio.sleep(chance.random() * seconds)
            await self.faults.lose_power()

    def calm_down(self) -> None:
        for node in self.cluster.nodes.values():
            node.machine.network.faults = CALM_NETWORK

    async def wait_in_sync(self, topic: str) -> None:
        """Every copy, as the newest metadata says."""
        while not self._is_in_sync(topic):  # noqa: ASYNC110 (seen from outside: nobody would set an event)
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    def describe(self, topic: str) -> str:
        """For those who find it stuck."""
        nodes = [
            f"node {node_id} {'serves' if node.is_serving else 'starts' if node.is_alive else 'is dead'}"
            + (f", takes {node.opened.node.quorum.leader_id} for the controller" if node.has_opened else "")
            for node_id, node in self.cluster.nodes.items()
        ]
        partitions = [
            f"{index}: leader {state.leader}, ISR {state.isr} of {state.replicas}"
            for _, index, state in self.cluster.named_partitions(topic)
        ]
        return "; ".join(nodes + partitions)

    def _is_in_sync(self, topic: str) -> bool:
        partitions = self.cluster.partitions(topic)
        return bool(partitions) and all(
            len(partition.isr) == len(partition.replicas)
            and partition.leader in partition.isr
            and not partition.is_moving
            for partition in partitions
        )
