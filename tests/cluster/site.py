"""Where a cluster stands: its nodes, their network if there is one of their own, its topics, and who has which role."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import pytest

import ottla.testing
from ottla.client.errors import ClientError
from ottla.client.raw.address import parse_address
from ottla.client.raw.connection import Connection
from ottla.testing import Broker
from ottla.wire import api
from ottla.wire.apis import ApiKey
from tests.chaos.brokers import wait_until
from tests.cluster.network import Network
from tests.cluster.topics import Topics

ANSWER_SECONDS_MAX: Final = 5.0
GROUP_KEY: Final = 0
TRANSACTION_KEY: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    cluster: ottla.testing.Cluster
    topics: Topics
    maybe_network: Network | None

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap_servers

    @property
    def network(self) -> Network:
        if self.maybe_network is None:
            pytest.skip("cutting links takes root and network namespaces")
        return self.maybe_network

    def node(self, node_id: int) -> Broker:
        return self.cluster.node(node_id)

    # -- roles -------------------------------------------------------------------------------------------------------

    def leader(self, topic: str) -> int:
        return self.topics.leader(topic)

    def follower(self, topic: str) -> int:
        """One that is not the controller too: that is another role."""
        elsewhere = {self.leader(topic), self.controller()}
        return next(node.id for node in self.cluster.nodes if node.id not in elsewhere)

    def controller(self) -> int:
        return self.cluster.controller.id

    def group_coordinator(self, group: str) -> int:
        return self._coordinator(group, GROUP_KEY)

    def transaction_coordinator(self, transactional_id: str) -> int:
        return self._coordinator(transactional_id, TRANSACTION_KEY)

    def _coordinator(self, key: str, key_type: int) -> int:
        found: list[int] = []
        wait_until(lambda: self._find_coordinator(key, key_type, found), f"a coordinator of {key}")
        return found[0]

    def _find_coordinator(self, key: str, key_type: int, found: list[int]) -> bool:
        request = api.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        for node in self.cluster.nodes:
            try:
                with connection_to(node) as connection:
                    answer = connection.ask(ApiKey.FIND_COORDINATOR, request, api.FindCoordinatorResponse)
            except ClientError:
                continue
            found += [each.node_id for each in answer.coordinators if each.error_code == 0]
            if found:
                return True
        return False

    # -- peace -------------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """Every link whole, every node running."""
        if self.maybe_network is not None:
            self.maybe_network.heal()
        for node in self.cluster.nodes:
            if node.is_running:
                node.resume()
        self.start([node.id for node in self.cluster.nodes if not node.is_running])

    def start(self, node_ids: Sequence[int]) -> None:
        """At once: none of them may be ready before a majority runs."""
        with ThreadPoolExecutor() as threads:
            for started in [threads.submit(self.node(node_id).restart) for node_id in node_ids]:
                started.result()


def connection_to(node: Broker) -> Connection:
    return Connection(parse_address(node.bootstrap_servers), client_id="site", timeout_s=ANSWER_SECONDS_MAX)
