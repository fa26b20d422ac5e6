"""What may happen to a cluster, one fault at a time: each begins when it is called and has ended when it returns.

The budget for lost bytes: at any moment fewer than min.insync.replicas copies of a partition have lost unsynced bytes and
not come back in sync since. More than that nobody promises to survive without `flush.messages`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from ottla.base.types import NodeId
from sim.cluster import SimulatedCluster
from sim.disk_nodes import Kept
from sim.node import SimulatedNode
from sim.peer_network import Link

Fault = Callable[[], Awaitable[None]]

AWAY_SECONDS_MAX: Final = 4.0
CHANGES_BEFORE_DEATH_MAX: Final = 30


class ClusterFaults:
    def __init__(self, cluster: SimulatedCluster, *, min_isr: int) -> None:
        self._cluster = cluster
        self._min_isr = min_isr
        self._chance = cluster.world.stream("faults")
        self._hits = cluster.hits
        self._damaged: dict[NodeId, None] = {}
        """Those that lost unsynced bytes and were not seen in sync since."""
        self._claimed: dict[NodeId, None] = {}
        self.all: Sequence[Fault] = (
            self.kill_process,
            self.kill_process,
            self.kill_machine,
            self.kill_machine,
            self.restart,
            self.pause,
            self.isolate,
            self.cut_one_way,
            self.cut_one_link,
            self.slow_disk,
            self.reset,
        )

    def _someone(self) -> SimulatedNode | None:
        """Of those that are well; leaders are worth more trouble than others."""
        well = [node for node in self._cluster.nodes.values() if node.is_serving and node.node_id not in self._claimed]
        leader_ids = {partition.leader for partition in self._cluster.partitions()}
        leading = [node for node in well if node.node_id in leader_ids]
        candidates = leading if leading and self._chance.random() < 0.5 else well
        return self._chance.choice(candidates) if candidates else None

    @contextmanager
    def _claimed_node(self) -> Iterator[SimulatedNode | None]:
        """A node whose process is this fault's alone."""
        node = self._someone()
        if node is None:
            yield None
            return
        self._claimed[node.node_id] = None
        try:
            yield node
        finally:
            del self._claimed[node.node_id]

    async def _be_away(self) -> None:
        await asyncio.sleep(self._chance.random() ** 2 * AWAY_SECONDS_MAX)

    # -- processes and machines --------------------------------------------------------------------------------------

    async def kill_process(self) -> None:
        """All it wrote is still in the page cache."""
        with self._claimed_node() as node:
            if node is not None:
                await self._kill(node, Kept.EVERYTHING, is_silent=False)

    async def kill_machine(self) -> None:
        with self._claimed_node() as node:
            if node is None:
                return
            self._forgive()
            if len(self._damaged.keys() - {node.node_id}) + 1 >= self._min_isr:
                self._hits["no budget for lost bytes"] += 1
                return
            self._damaged[node.node_id] = None
            kept = self._chance.choice((Kept.NOTHING, Kept.PART))
            await self._kill(node, kept, is_silent=self._chance.random() < 0.5)

    def _forgive(self) -> None:
        """Who is in sync again everywhere, as the newest metadata says, has all that it may have lost."""
        for node_id in self._damaged.keys() - self._claimed.keys():
            copies = [partition for partition in self._cluster.partitions() if node_id in partition.replicas]
            is_in_sync = bool(copies) and all(node_id in partition.isr for partition in copies)
            if is_in_sync and self._cluster.nodes[node_id].is_serving:
                del self._damaged[node_id]

    async def _kill(self, node: SimulatedNode, kept: Kept, *, is_silent: bool) -> None:
        if self._chance.random() < 0.5:
            node.die_at(self._chance.randint(0, CHANGES_BEFORE_DEATH_MAX))
            await asyncio.sleep(self._chance.random())
            self._hits["died inside a disk call"] += not node.is_alive
        self._cluster.kill(node.node_id, kept, is_silent=is_silent)
        await self._be_away()
        if self._chance.random() < 0.3:
            node.die_at(self._chance.randint(0, CHANGES_BEFORE_DEATH_MAX))
            await node.start()
            self._hits["died while starting"] += not node.is_alive
            if node.is_alive:
                node.live()
                return
            self._cluster.kill(node.node_id, kept)
        await node.start()

    async def restart(self) -> None:
        with self._claimed_node() as node:
            if node is not None:
                self._hits["clean restart"] += 1
                await node.stop()
                await self._be_away()
                await node.start()

    async def pause(self) -> None:
        with self._claimed_node() as node:
            if node is not None:
                self._hits["process paused"] += 1
                node.pause()
                await self._be_away()
                node.resume()

    async def slow_disk(self) -> None:
        node = self._someone()
        if node is not None:
            self._hits["disk slow"] += 1
            with node.slow_disk():
                await self._be_away()

    # -- links -------------------------------------------------------------------------------------------------------

    async def isolate(self) -> None:
        node = self._someone()
        if node is not None:
            await self._cut(self._cluster.links_around(node.node_id), "node isolated")

    async def cut_one_way(self) -> None:
        """From one node, or to it, or from one to one other."""
        node = self._someone()
        if node is not None:
            links = sorted(self._cluster.links_around(node.node_id))
            chosen = self._chance.choice(
                (
                    {link for link in links if link[0] == node.node_id},
                    {link for link in links if link[1] == node.node_id},
                    {self._chance.choice(links)},
                )
            )
            await self._cut(chosen, "links cut one way")

    async def cut_one_link(self) -> None:
        """Both ways: everyone still sees a majority, and not the same one."""
        one, other = self._two()
        await self._cut(self._cluster.links_between({one}, {other}), "one link cut")

    async def _cut(self, links: set[Link], what: str) -> None:
        self._hits[what] += 1
        self._cluster.network.cut_off(links)
        await self._be_away()
        self._cluster.network.mend(links)

    async def reset(self) -> None:
        one, other = self._two()
        self._cluster.network.reset((one, other))

    def _two(self) -> tuple[NodeId, NodeId]:
        one, other = self._chance.sample(self._cluster.node_ids, 2)
        return one, other
