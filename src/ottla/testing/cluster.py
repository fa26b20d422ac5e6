"""A real cluster for tests: three broker processes on this machine, each to be killed, stopped, paused and started again.

The first node founds the cluster; the others find it through `controller.quorum.bootstrap.servers` and join the quorum
by themselves. Internal topics have a replica on every node, up to three, as they would in production. `add` lets another
node join at any time.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

from ottla.client.errors import ClientError
from ottla.client.raw.address import parse_address
from ottla.client.raw.connection import Connection
from ottla.server.local_cluster import REPLICAS_MAX, settings_of_node
from ottla.testing.embedded import HERE, Broker, BrokerFailed, Machine
from ottla.wire import api
from ottla.wire.apis import ApiKey

JOIN_SECONDS_MAX: Final = 30.0
ANSWER_SECONDS_MAX: Final = 5.0
ASK_AGAIN_SECONDS: Final = 0.05
HEARD_MS_MAX: Final = 1_500  # Voters fetch at least twice a second.
LOG_CHARACTERS_MAX: Final = 4000


class Cluster:
    """Running brokers. Use `ottla.testing.cluster()` to get one."""

    def __init__(self) -> None:
        self.nodes: Final[list[Broker]] = []

    def add(
        self,
        *,
        node_count: int = REPLICAS_MAX,
        config: Mapping[str, object] | None = None,
        machine: Machine = HERE,
    ) -> Broker:
        """Starts another node, with the next id and the settings of one of `node_count`; `wait_joined` until it votes."""
        node_id = len(self.nodes) + 1
        running = ",".join(node.bootstrap_servers for node in self.nodes if node.is_running) or None
        settings = settings_of_node(node_id, node_count, running)
        node = Broker(config={**settings, **(config or {})}, machine=machine)
        self.nodes.append(node)
        node.start()
        return node

    def close(self) -> None:
        with ExitStack() as stack:
            for node in self.nodes:
                stack.callback(node.close)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(node.bootstrap_servers for node in self.nodes)

    def node(self, node_id: int) -> Broker:
        return next(node for node in self.nodes if node.id == node_id)

    @property
    def controller(self) -> Broker:
        """The node that leads the metadata quorum just now."""
        return self.node(self._quorum().leader_id)

    def wait_joined(self) -> None:
        """Until every node is a voter that is heard: before that, the death of the first would leave no quorum, and so
        would a second lost disk before the node of the first votes again."""
        deadline = time.monotonic() + JOIN_SECONDS_MAX
        while not self._is_joined(self._quorum().current_voters):
            if time.monotonic() > deadline:
                raise BrokerFailed(f"not every node joined within {JOIN_SECONDS_MAX} s; their logs:\n{self._logs()}")
            time.sleep(ASK_AGAIN_SECONDS)

    def _is_joined(self, voters: Sequence[api.DescribeQuorumResponse.ReplicaState]) -> bool:
        newest_ms = max((voter.last_fetch_timestamp for voter in voters), default=0)  # The leader's own: now.
        heard = [voter for voter in voters if newest_ms - voter.last_fetch_timestamp < HEARD_MS_MAX]
        return len(heard) == len(self.nodes)

    def _quorum(self) -> api.DescribeQuorumResponse.PartitionData:
        kind = api.DescribeQuorumRequest
        topic = kind.TopicData(topic_name="__cluster_metadata", partitions=[kind.PartitionData(partition_index=0)])
        deadline = time.monotonic() + JOIN_SECONDS_MAX
        while time.monotonic() < deadline:
            for node in self.nodes:
                try:
                    with Connection(
                        parse_address(node.bootstrap_servers), client_id="ottla-testing", timeout_s=ANSWER_SECONDS_MAX
                    ) as connection:
                        described = connection.ask(
                            ApiKey.DESCRIBE_QUORUM, kind(topics=[topic]), api.DescribeQuorumResponse
                        )
                except ClientError:
                    continue
                if described.error_code == 0 and described.topics[0].partitions[0].error_code == 0:
                    return described.topics[0].partitions[0]
            time.sleep(ASK_AGAIN_SECONDS)
        raise BrokerFailed(f"the cluster has no controller; the logs of its nodes:\n{self._logs()}")

    def _logs(self) -> str:
        return "\n".join(f"-- node {node.id}\n{node.log[-LOG_CHARACTERS_MAX:]}" for node in self.nodes)


@contextmanager
def cluster(
    nodes: int = 3,
    *,
    config: Mapping[str, object] | None = None,
    configs: Mapping[int, Mapping[str, object]] | None = None,
    machines: Mapping[int, Machine] | None = None,
) -> Iterator[Cluster]:
    """`nodes` brokers for the length of a `with` block, with ids from 1 on.

    `config` takes Kafka's broker settings for all of them, `configs` for single nodes by id ({2: {"broker.rack": "b"}}).
    `machines` says where each runs, if not just here.
    """
    formed = Cluster()
    try:
        for node_id in range(1, nodes + 1):
            own = {**(config or {}), **(configs or {}).get(node_id, {})}
            formed.add(node_count=nodes, config=own, machine=(machines or {}).get(node_id, HERE))
        formed.wait_joined()
        yield formed
    finally:
        formed.close()
