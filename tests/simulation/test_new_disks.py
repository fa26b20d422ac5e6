"""A node whose disk is new cannot reach the quorum's leader for a while: it knows nobody yet but its bootstrap servers.

They name the leader while the link to it is cut. Virtual time; the leader stays the same all the while, so that no new
epoch helps.
"""

import asyncio

import pytest

from sim.cluster import SimulatedCluster
from sim.disk_nodes import Kept
from sim.world import World

CUT_SECONDS = 5.0  # Two fetch time-outs and more.
START_SECONDS_MAX = 10.0


@pytest.mark.parametrize("is_restarted", [False, True], ids=["it waits", "it is restarted"])
def test_a_new_node_finds_the_leader_once_their_link_is_mended(is_restarted: bool) -> None:
    world = World(1)

    async def main() -> None:
        cluster = SimulatedCluster(world, (1, 2, 3))
        await cluster.start()
        leader_id = cluster.nodes[1].opened.node.quorum.leader_id
        node = next(node for node_id, node in cluster.nodes.items() if node_id != leader_id)
        node.kill(Kept.NOTHING)
        cluster.wipe(node.node_id)
        links = cluster.links_between({node.node_id}, {leader_id})
        cluster.network.cut_off(links)
        starting = asyncio.create_task(node.start())
        await asyncio.sleep(CUT_SECONDS)
        if is_restarted:
            node.kill(Kept.EVERYTHING)
            await starting
            starting = asyncio.create_task(node.start())
            await asyncio.sleep(CUT_SECONDS)
        assert not node.is_serving
        cluster.network.mend(links)
        async with asyncio.timeout(START_SECONDS_MAX):
            await starting
        assert node.opened.node.quorum.leader_id == leader_id
        await cluster.stop()

    world.run(main())
