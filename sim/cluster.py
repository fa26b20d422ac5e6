"""Several nodes in one simulated world, each on a machine of its own, over a network that may cut any of them off.

Clients reach every node whatever the links between nodes do: who is cut off from the others may still be asked.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from ottla.base.types import NodeId
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_parts import PartitionImage
from sim.disk_nodes import Kept
from sim.network import CALM, NetworkFaults
from sim.node import PORT, SimulatedNode
from sim.peer_network import Address, Link, NetworkedPeers, PeerNetwork
from sim.world import World

CLOCK_SKEW_MS_MAX: Final = 3_000


class SimulatedCluster:
    def __init__(
        self,
        world: World,
        node_ids: Sequence[NodeId],
        settings: Mapping[str, str] | None = None,
        *,
        client_faults: NetworkFaults = CALM,
        hits: Counter[str] | None = None,
    ) -> None:
        self.world = world
        self.hits = Counter() if hits is None else hits
        self.network = PeerNetwork(world.loop, world.stream("peers"), world.trace, self.hits)
        self.node_ids = list(node_ids)
        self.nodes = {node_id: self._new_node(node_id, settings or {}, client_faults) for node_id in node_ids}

    def _new_node(self, node_id: NodeId, settings: Mapping[str, str], client_faults: NetworkFaults) -> SimulatedNode:
        skew_ms = self.world.random.randint(-CLOCK_SKEW_MS_MAX, CLOCK_SKEW_MS_MAX)
        name, _ = address_of(node_id)
        node = SimulatedNode(
            self.world.new_machine(name, clock_skew_ms=skew_ms, faults=client_faults),
            {**settings, **self._own_settings(node_id)},
            lambda own_id, loopback, address_of: NetworkedPeers(self.network, own_id, loopback, address_of),
            on_death=lambda: self.network.on_death(node_id),
            name=name,
        )
        self.network.join(address_of(node_id), node)
        return node

    def _own_settings(self, node_id: NodeId) -> dict[str, str]:
        """The first founds the cluster, the others join it."""
        own = {"node.id": str(node_id), "controller.quorum.auto.join.enable": "true"}
        return own if node_id == self.node_ids[0] else {**own, **self._joining()}

    def _joining(self) -> dict[str, str]:
        servers = ",".join(f"{host}:{port}" for host, port in map(address_of, self.node_ids))
        return {"controller.quorum.bootstrap.servers": servers}

    # -- life and death ----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """All at once; returns when all of them serve."""
        await asyncio.gather(*(node.start() for node in self.nodes.values()))

    async def stop(self) -> None:
        for node in self.nodes.values():
            if node.is_alive:
                await node.stop()

    def kill(self, node_id: NodeId, kept: Kept, *, is_silent: bool = False) -> None:
        self.world.trace.add("kill", node_id, kept.value, is_silent)
        self.hits[f"{'machine' if is_silent else 'process'} killed, {kept.value} kept"] += 1
        self.nodes[node_id].kill(kept, is_silent=is_silent)

    def wipe(self, node_id: NodeId) -> None:
        """The disk of a dead node is replaced; whoever it is, it joins a cluster that is there."""
        self.nodes[node_id].wipe(self._joining())

    # -- what the cluster knows --------------------------------------------------------------------------------------

    def image(self) -> MetadataImage | None:
        """Of the node that knows most."""
        nodes = [node for node in self.nodes.values() if node.is_alive and node.has_opened]
        return max((node.opened.node.image for node in nodes), key=lambda image: image.offset, default=None)

    def named_partitions(self, topic: str | None = None) -> list[tuple[str, int, PartitionImage]]:
        """Of this topic or of all."""
        image = self.image()
        return [
            (each.name, index, partition)
            for each in (() if image is None else image.topics.values())
            if topic in (None, each.name)
            for index, partition in each.partitions.items()
        ]

    def partitions(self, topic: str | None = None) -> list[PartitionImage]:
        return [partition for _, _, partition in self.named_partitions(topic)]

    # -- links -------------------------------------------------------------------------------------------------------

    def links_between(self, some: set[NodeId], others: set[NodeId]) -> set[Link]:
        return {link for one in some for other in others for link in ((one, other), (other, one))}

    def links_around(self, node_id: NodeId) -> set[Link]:
        return self.links_between({node_id}, set(self.node_ids) - {node_id})


def address_of(node_id: NodeId) -> Address:
    return f"node-{node_id}", PORT
