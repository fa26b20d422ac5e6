"""Links between nodes that are cut, one way or both, or refused by a firewall, and connections that break."""

from collections.abc import Mapping

from sim.fault_targets import Fault, FaultTargets
from sim.peer_network import Link


class LinkCuts:
    def __init__(self, targets: FaultTargets) -> None:
        self._targets = targets
        self._cluster = targets.cluster
        self._chance = targets.chance
        self._hits = targets.hits
        self.kinds: Mapping[str, Fault] = {
            "isolation": self.isolate,
            "halves": self.split,
            "one way": self.cut_one_way,
            "one link": self.cut_one_link,
            "refusal": self.refuse,
            "reset": self.reset,
        }

    async def isolate(self) -> None:
        node = self._targets.anyone()
        if node is not None:
            await self._cut(self._cluster.links_around(node.node_id), "node isolated")

    async def split(self) -> None:
        """Any two parts, of which one may be a majority."""
        ids = self._cluster.node_ids
        some = set(self._chance.sample(ids, self._chance.randint(1, len(ids) - 1)))
        await self._cut(self._cluster.links_between(some, set(ids) - some), "cluster split in two")

    async def cut_one_way(self) -> None:
        """From one node, or to it, or from one to one other."""
        await self._cut(self._one_way(), "links cut one way")

    async def refuse(self) -> None:
        """Nobody is dead, and some are told so."""
        links = self._one_way()
        self._hits["links refused"] += 1
        self._cluster.network.refuse(links)
        await self._targets.be_away()
        self._cluster.network.mend(links)

    def _one_way(self) -> set[Link]:
        node = self._targets.anyone()
        links = sorted(self._cluster.links_around(node.node_id)) if node is not None else []
        if node is None or not links:
            return set()
        return self._chance.choice(
            (
                {link for link in links if link[0] == node.node_id},
                {link for link in links if link[1] == node.node_id},
                {self._chance.choice(links)},
            )
        )

    async def cut_one_link(self) -> None:
        """Both ways: everyone still sees a majority, and not the same one."""
        one, other = self._targets.two()
        await self._cut(self._cluster.links_between({one}, {other}), "one link cut")

    async def _cut(self, links: set[Link], what: str) -> None:
        self._hits[what] += 1
        self._cluster.network.cut_off(links)
        await self._targets.be_away()
        self._cluster.network.mend(links)

    async def reset(self) -> None:
        self._cluster.network.reset(self._targets.two())
