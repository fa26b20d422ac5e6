"""Three nodes that chaos is done to as if they were one: `kill` and `stop` choose who has a role just then, in turn.

The roles are those that exactly-once depends on: who leads the first input partition, who coordinates its group and its
transactions, and who controls the cluster.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import ottla.testing
from ottla.testing import Broker
from tests.chaos.brokers import require_untroubled
from tests.chaos.group_member import GROUP as MEMBERS_GROUP
from tests.chaos.group_member import TOPIC
from tests.chaos.transform_worker import GROUP, INPUT
from tests.cluster.site import Site
from tests.cluster.topics import Topics


class ClusterSubject:
    def __init__(self, cluster: ottla.testing.Cluster) -> None:
        self._site = Site(cluster=cluster, topics=Topics(cluster.bootstrap_servers), maybe_network=None)
        self._roles = itertools.cycle(("leader", "group coordinator", "transaction coordinator", "controller"))
        self._down: Broker | None = None
        self.harmed: Counter[str] = Counter()

    @property
    def bootstrap_servers(self) -> str:
        return self._site.bootstrap

    def start(self) -> None:
        if self._down is not None:
            self._down.start()
        self._down = None

    def stop(self) -> None:
        self._choose().stop()

    def kill(self) -> None:
        self._choose().kill()

    def _choose(self) -> Broker:
        role = next(self._roles)
        self.harmed[role] += 1
        self._down = self._site.node(self._holder(role))
        return self._down

    def _holder(self, role: str) -> int:
        """Of the run that is under way: one of transactions, or one of a group alone."""
        has_transactions = INPUT in self._site.topics.names()
        match role:
            case "leader":
                return self._site.leader(INPUT if has_transactions else TOPIC)
            case "group coordinator":
                return self._site.group_coordinator(GROUP if has_transactions else MEMBERS_GROUP)
            case "transaction coordinator" if has_transactions:
                return self._site.transaction_coordinator("worker-0")
        return self._site.controller()

    @property
    def logs(self) -> dict[str, str]:
        return {f"node-{node.id}.log": node.log for node in self._site.cluster.nodes}

    def require_untroubled(self) -> None:
        for node in self._site.cluster.nodes:
            require_untroubled(node)


@contextmanager
def cluster_under_test(config: Mapping[str, str]) -> Iterator[ClusterSubject]:
    with ottla.testing.cluster(nodes=3, config={**config, "min.insync.replicas": 2}) as cluster:
        yield ClusterSubject(cluster)
