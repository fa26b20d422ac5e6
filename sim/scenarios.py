"""Every scenario by its name: one seed of one kind of trouble each."""

from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

from sim.cluster_scenario import ClusterScenario
from sim.group_scenario import group_on_a_cluster, group_on_one_node
from sim.log_scenario import COMPACTED, LogScenario
from sim.metadata_scenario import MetadataScenario
from sim.node_scenario import NodeScenario
from sim.raft_scenario import RaftScenario
from sim.transaction_scenario import transactions_on_a_cluster, transactions_on_one_node


class Scenario(Protocol):
    @property
    def hits(self) -> Counter[str]:
        """How often each fault, and each rare branch, was met."""
        ...

    def run(self) -> object:
        """Raises what must not happen; returns the digest of what did."""
        ...


SCENARIOS: Final[dict[str, Callable[[int], Scenario]]] = {
    "log": LogScenario,
    "compacted-log": lambda seed: LogScenario(seed, COMPACTED),
    "metadata": MetadataScenario,
    "raft": RaftScenario,
    "node": lambda seed: NodeScenario(seed, is_power_safe=seed % 2 == 0),
    "transactions": lambda seed: transactions_on_one_node(
        seed, version=1 if seed % 4 == 3 else 2, is_power_safe=seed % 2 == 0
    ),
    "groups": lambda seed: group_on_one_node(seed, is_power_safe=seed % 2 == 0),
    "cluster": ClusterScenario,
    "cluster-transactions": transactions_on_a_cluster,
    "cluster-groups": group_on_a_cluster,
}
