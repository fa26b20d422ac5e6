"""Three nodes, one of which is killed and started again all the time: in turn who leads and who coordinates what an
exactly-once query of Spark depends on.

A node is killed only once the last one is in sync again: two dead ones of three are an outage, not a failover.
"""

import itertools
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import ottla.testing
from ottla.spark.decisions import TOPIC as DECISIONS
from ottla.spark.decisions import transactional_prefix
from tests.chaos.brokers import require_untroubled
from tests.cluster.site import Site
from tests.cluster.topics import Topics
from tests.spark_slow.crash_sinks import TARGET

DOWN_SECONDS_MAX = 2.0
UP_SECONDS_MAX = 2.0
IN_SYNC_SECONDS_MAX = 120.0  # On a machine that many share.
TRANSACTIONS = "__transaction_state"
NODES = 3


class DyingNodes:
    def __init__(self, cluster: ottla.testing.Cluster, chance: random.Random) -> None:
        self._site = Site(cluster=cluster, topics=Topics(cluster.bootstrap_servers), maybe_network=None)
        self._chance = chance
        self.harmed: Counter[str] = Counter()

    @property
    def bootstrap_servers(self) -> str:
        return self._site.bootstrap

    @contextmanager
    def dying(self, query_id: Callable[[], str | None]) -> Iterator[None]:
        """For the length of a `with` block, at the end of which all of them run. The query is known once it has begun;
        until then nobody dies."""
        is_over = threading.Event()
        with ThreadPoolExecutor(1) as thread:
            killing = thread.submit(self._kill_in_turn, query_id, is_over)
            try:
                yield
            finally:
                is_over.set()
                killing.result()
        for node in self._site.cluster.nodes:
            require_untroubled(node)

    def _kill_in_turn(self, query_id: Callable[[], str | None], is_over: threading.Event) -> None:
        roles = itertools.cycle(ROLES)
        while not is_over.wait(self._chance.uniform(0, UP_SECONDS_MAX)):
            query = query_id()
            if query is not None and DECISIONS in self._site.topics.names():
                self._kill(next(roles), query, is_over)

    def _kill(self, role: str, query_id: str, is_over: threading.Event) -> None:
        node = self._site.node(ROLES[role](self._site, transactional_prefix(query_id)))
        node.kill()
        self.harmed[role] += 1
        is_over.wait(self._chance.uniform(0, DOWN_SECONDS_MAX))
        node.start()
        for topic in (TARGET, DECISIONS, TRANSACTIONS):
            self._site.topics.wait_until(topic, lambda state: len(state.isr) == NODES, wait_s=IN_SYNC_SECONDS_MAX)


ROLES: dict[str, Callable[[Site, str], int]] = {
    "leader of the rows": lambda site, _: site.leader(TARGET),
    "coordinator of the decision": lambda site, prefix: site.transaction_coordinator(prefix + "decision"),
    "leader of the decisions": lambda site, _: site.leader(DECISIONS),
    "coordinator of a task": lambda site, prefix: site.transaction_coordinator(prefix + "0-0"),
    "leader of the transactions": lambda site, _: site.leader(TRANSACTIONS),
    "controller": lambda site, _: site.controller(),
}


@contextmanager
def three_nodes(chance: random.Random) -> Iterator[DyingNodes]:
    with ottla.testing.cluster(nodes=NODES, config={"min.insync.replicas": 2}) as cluster:
        yield DyingNodes(cluster, chance)
