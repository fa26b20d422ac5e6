"""All that may happen to a cluster, and what of it a seed draws.

Every seed has some kinds of faults and not the others: with all of them together each would hide what another shows.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from sim.administrator import Administrator
from sim.cluster import SimulatedCluster
from sim.disk_faults import DiskFaults
from sim.fault_targets import Fault, FaultTargets
from sim.link_cuts import LinkCuts
from sim.moments import Moments
from sim.process_faults import ProcessFaults

KINDS_MIN: Final = 4
KINDS_MAX: Final = 9
WEIGHTS: Final = {"process": 3, "machine": 3, "moment": 3}


class ClusterFaults:
    def __init__(
        self, cluster: SimulatedCluster, *, replica_count: int, min_isr: int, is_power_safe: bool = False
    ) -> None:
        targets = FaultTargets(cluster, min_isr=min_isr, is_power_safe=is_power_safe)
        processes = ProcessFaults(targets)
        self.lose_power: Fault = processes.lose_power
        """Once at most, and only where every record is synced."""
        self.kinds: Mapping[str, Fault] = {
            **processes.kinds,
            **DiskFaults(targets).kinds,
            **LinkCuts(targets).kinds,
            **Moments(targets, min_isr=min_isr).kinds,
            **Administrator(targets, replica_count=replica_count, min_isr=min_isr).kinds,
        }
        self.names: Sequence[str] = self._draw(targets)
        """Of the kinds that this seed has."""
        self.drawn: Sequence[Fault] = [self.kinds[name] for name in self.names for _ in range(WEIGHTS.get(name, 1))]

    def _draw(self, targets: FaultTargets) -> list[str]:
        chance = targets.chance
        names = chance.sample(list(self.kinds), chance.randint(KINDS_MIN, KINDS_MAX))
        if "wiped" in names and "voters" in names:
            # A set of voters that is in some log only, and a voter that is gone: together they may end any quorum.
            names.remove("voters")
        if not {"process", "machine"} & set(names):
            names.append(chance.choice(("process", "machine")))
        return names
