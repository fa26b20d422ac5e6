"""Whom a fault strikes, and how much may be lost at a time.

The budget for lost bytes: at any moment fewer than min.insync.replicas copies of a partition have lost bytes and not come
back in sync since. More than that nobody promises to survive. Where every record is synced before it counts
(`is_power_safe`) a machine that loses power loses nothing that counts, and only a directory that is gone spends budget.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ottla.base.types import NodeId
from ottla.raft.voters import VoterSet
from sim.cluster import SimulatedCluster
from sim.node import SimulatedNode

Fault = Callable[[], Awaitable[None]]
"""Begins when it is called and has ended when it returns."""

AWAY_SECONDS_MAX: Final = 4.0


class FaultTargets:
    def __init__(self, cluster: SimulatedCluster, *, min_isr: int, is_power_safe: bool) -> None:
        self.cluster = cluster
        self.hits = cluster.hits
        self.chance = cluster.world.stream("faults")
        self.is_power_safe = is_power_safe
        self._min_isr = min_isr
        self._damaged: dict[NodeId, None] = {}
        """Those that lost bytes and were not seen in sync since."""
        self._claimed: dict[NodeId, None] = {}

    def anyone(self) -> SimulatedNode | None:
        """Of those that are well; leaders are worth more trouble than others."""
        well = [node for node in self.cluster.nodes.values() if node.is_serving and node.node_id not in self._claimed]
        leader_ids = {partition.leader for partition in self.cluster.partitions()}
        leading = [node for node in well if node.node_id in leader_ids]
        candidates = leading if leading and self.chance.random() < 0.5 else well
        return self.chance.choice(candidates) if candidates else None

    @contextmanager
    def claimed(self, node_id: NodeId | None = None) -> Iterator[SimulatedNode | None]:
        """A node whose process is this fault's alone: this one, or anyone."""
        node = self.anyone() if node_id is None else self._if_well(node_id)
        if node is None:
            yield None
            return
        self._claimed[node.node_id] = None
        try:
            yield node
        finally:
            del self._claimed[node.node_id]

    @contextmanager
    def all_claimed(self) -> Iterator[list[SimulatedNode]]:
        """All that are well."""
        nodes = [node for node in self.cluster.nodes.values() if node.is_serving and node.node_id not in self._claimed]
        self._claimed |= {node.node_id: None for node in nodes}
        try:
            yield nodes
        finally:
            for node in nodes:
                del self._claimed[node.node_id]

    def _if_well(self, node_id: NodeId) -> SimulatedNode | None:
        node = self.cluster.nodes[node_id]
        return node if node.is_serving and node_id not in self._claimed else None

    def two(self) -> tuple[NodeId, NodeId]:
        one, other = self.chance.sample(self.cluster.node_ids, 2)
        return one, other

    async def be_away(self) -> None:
        await asyncio.sleep(self.chance.random() ** 2 * AWAY_SECONDS_MAX)

    # -- the budget --------------------------------------------------------------------------------------------------

    def may_lose_bytes(self, node: SimulatedNode) -> bool:
        """Spends of the budget where there is something left."""
        self._forgive()
        if len(self._damaged.keys() - {node.node_id}) + 1 >= self._min_isr:
            self.hits["no budget for lost bytes"] += 1
            return False
        self._damaged[node.node_id] = None
        return True

    def _forgive(self) -> None:
        """Who is in sync again everywhere, as the newest metadata says, has all that it may have lost."""
        for node_id in self._damaged.keys() - self._claimed.keys():
            copies = [partition for partition in self.cluster.partitions() if node_id in partition.replicas]
            if self.cluster.nodes[node_id].is_serving and all(node_id in partition.isr for partition in copies):
                del self._damaged[node_id]

    def settled_voters(self) -> VoterSet | None:
        """The voters, if everyone lives, knows the same ones, and is where they say. Then no other set is in any log."""
        sets = []
        for node in self.cluster.nodes.values():
            if not node.is_serving:
                return None
            sets.append(node.opened.node.quorum.voters)
            if any(voter.key.node_id == node.node_id and voter.key != node.replica_key for voter in sets[-1]):
                return None
        return sets[0] if all(one == sets[0] for one in sets) else None
