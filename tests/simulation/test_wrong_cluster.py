"""A node whose directory belongs to another cluster than the nodes that it finds: it ends and says why. Virtual time."""

import asyncio
from dataclasses import replace

import pytest

from ottla.broker.start import StartRefused
from ottla.log.directory import read_identity
from sim.cluster import SimulatedCluster
from sim.node import DATA, SimulatedNode
from sim.world import World

OTHER_CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
START_SECONDS_MAX = 60.0


def relabel(node: SimulatedNode) -> str:
    """Whose it was."""
    disk = node.machine.disk
    identity = read_identity(disk, DATA)
    assert identity is not None
    disk.replace(f"{DATA}/meta.properties", replace(identity, cluster_id=OTHER_CLUSTER_ID).encode())
    return identity.cluster_id


def test_a_directory_of_another_cluster_is_told_by_both_names_and_the_others_go_on() -> None:
    world = World(1)

    async def main() -> None:
        cluster = SimulatedCluster(world, (1, 2, 3))
        await cluster.start()
        await asyncio.sleep(1)  # Until all are voters.
        stranger = cluster.nodes[3]
        await stranger.stop()
        cluster_id = relabel(stranger)
        with pytest.raises(StartRefused) as refused:
            async with asyncio.timeout(START_SECONDS_MAX):
                await stranger.start()
        text = str(refused.value)
        for part in (cluster_id, OTHER_CLUSTER_ID, DATA, "nodes 1, 2", "INCONSISTENT_CLUSTER_ID", "log.dirs"):
            assert part in text
        await cluster.nodes[2].stop()
        async with asyncio.timeout(START_SECONDS_MAX):
            await cluster.nodes[2].start()
        await asyncio.gather(*(cluster.nodes[node_id].stop() for node_id in (1, 2)))

    world.run(main())
