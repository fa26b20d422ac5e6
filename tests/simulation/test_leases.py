"""The node that is controller and broker falls silent: others take over within one session, and by then it knows.

Virtual time. All the while: a broker that anybody knows to be fenced does not take itself for one that serves.
"""

import asyncio
from collections.abc import Callable

import pytest

from ottla.broker.node import Node
from sim.cluster import SimulatedCluster
from sim.world import World

SESSION_SECONDS = 3.0
SETTINGS = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
FETCH_TIMEOUT_SECONDS = 2.0
AWAY_SECONDS = 8.0
LOOK_SECONDS = 0.005


class Watched:
    """A cluster whose controller falls silent in some way; looks at it again and again."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        (self.victim,) = (node for node in self.nodes if node.is_active_controller and node.active_controller.is_active)
        self.others = [node for node in self.nodes if node is not self.victim]

    @property
    def nodes(self) -> list[Node]:
        return [one.opened.node for one in self.cluster.nodes.values()]

    @property
    def is_fenced(self) -> bool:
        newest = max((other.image for other in self.others), key=lambda image: image.offset)
        return newest.brokers[self.victim.node_id].fenced

    @property
    def knows(self) -> bool:
        return self.victim.image.brokers[self.victim.node_id].fenced

    async def look(self, until: Callable[[], bool], seconds: float) -> float:
        begun = self.now()
        while not until() and self.now() < begun + seconds:
            assert not self.is_fenced or self.knows or self.victim.is_cut_off, "a broker that is fenced serves"
            await asyncio.sleep(LOOK_SECONDS)
        return self.now() - begun

    def now(self) -> float:
        return asyncio.get_running_loop().time()


def play(fault: str, seed: int) -> float:
    """Seconds until it is fenced."""
    world = World(seed)
    found = []

    async def main() -> None:
        cluster = SimulatedCluster(world, (1, 2, 3), SETTINGS)
        await cluster.start()
        await asyncio.sleep(5 + world.random.random() * 2)
        watched = Watched(cluster)
        victim_id = watched.victim.node_id
        outward = {(victim_id, other.node_id) for other in watched.others}
        inward = {(other, one) for one, other in outward}
        links = {"mute": outward, "deaf": inward, "isolated": outward | inward}.get(fault, set())
        cluster.network.cut_off(links)
        if fault == "paused":
            cluster.nodes[victim_id].pause()
        found.append(await watched.look(lambda: watched.is_fenced, AWAY_SECONDS))
        await watched.look(lambda: False, AWAY_SECONDS - found[0])
        cluster.network.mend(links)
        if fault == "paused":
            cluster.nodes[victim_id].resume()
        await watched.look(lambda: False, 3)
        assert not watched.is_fenced, "it is let serve again"
        await cluster.stop()

    world.run(main())
    return found[0]


@pytest.mark.parametrize("fault", ["isolated", "mute", "deaf", "paused"])
def test_a_silent_controller_is_fenced_within_a_session_and_knows(fault: str) -> None:
    for seed in range(4):
        assert play(fault, seed) < SESSION_SECONDS + FETCH_TIMEOUT_SECONDS / 2
