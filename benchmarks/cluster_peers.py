"""Three nodes of each on this machine, as a user would start them: each controller and broker, RF 3, min ISR 2."""

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Generic, TypeVar

from benchmarks.peers import START_SECONDS_MAX, ApacheKafka, Ottla, Peer, PeerError, free_port
from benchmarks.processes import BrokerProcess
from benchmarks.raw_client import raw_client
from ottla.server.local_cluster import settings_of_node
from ottla.wire import api
from ottla.wire.apis import ApiKey

NODES: Final = 3
POLL_SECONDS: Final = 0.05
REPLICATED: Final = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
}

Node = TypeVar("Node", bound=Peer)


class Cluster(Peer, Generic[Node]):
    """Three nodes as one peer. A node is killed, stopped and started by its id."""

    replication_factor = NODES

    def __init__(self, directory: Path, *, properties: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, properties=properties)
        self.nodes: dict[int, Node] = {
            number: self.new_node(directory / f"node-{number}") for number in range(1, NODES + 1)
        }

    @abstractmethod
    def new_node(self, directory: Path) -> Node: ...

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    @property
    def process(self) -> BrokerProcess:
        raise PeerError("a cluster has several processes")

    @property
    def processes(self) -> Sequence[BrokerProcess]:
        return [node.process for node in self.nodes.values()]

    def version(self) -> str:
        return self.nodes[1].version()

    def command(self) -> list[str]:
        raise PeerError("a cluster has several commands")

    def prepare(self) -> None:
        for node in self.nodes.values():
            node.prepare()

    def start(self) -> float:
        started = time.perf_counter()
        for node in self.nodes.values():
            node.start_without_waiting()
        for node in self.nodes.values():
            node.wait_started()
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._is_whole():
            if time.monotonic() > deadline:
                raise PeerError(f"{self.name}: the nodes do not form a cluster")
            time.sleep(POLL_SECONDS)
        return time.perf_counter() - started

    def _is_whole(self) -> bool:
        """Every node knows all three; and with that their votes."""
        try:
            return all(self._sees_all(node) for node in self.nodes.values()) and self.controller_id() in self.nodes
        except OSError:
            return False

    def _sees_all(self, node: Node) -> bool:
        with raw_client(node.port) as client:
            response = client.ask(ApiKey.DESCRIBE_CLUSTER, 1, api.DescribeClusterRequest())
        return len(response.brokers) == NODES

    def controller_id(self) -> int:
        """The leader of the metadata quorum, once all three are its voters; -1 before."""
        kind = api.DescribeQuorumRequest
        topic = kind.TopicData(topic_name="__cluster_metadata", partitions=[kind.PartitionData(partition_index=0)])
        for node in self.nodes.values():
            try:
                with raw_client(node.port) as client:
                    response = client.ask(ApiKey.DESCRIBE_QUORUM, 2, kind(topics=[topic]))
            except OSError:
                continue
            partition = response.topics[0].partitions[0]
            if not partition.error_code:
                return int(partition.leader_id) if len(partition.current_voters) == NODES else -1
        return -1

    def stop(self) -> None:
        for node in self.nodes.values():
            node.stop()

    def kill(self) -> None:
        for node in self.nodes.values():
            node.kill()

    def resident_bytes(self) -> int:
        return sum(process.resident_bytes() for process in self.processes)


class OttlaCluster(Cluster[Ottla]):
    name = Ottla.name

    def new_node(self, directory: Path) -> Ottla:
        return Ottla(directory)

    def prepare(self) -> None:
        first = self.nodes[1].bootstrap
        for number, node in self.nodes.items():
            node.properties = {
                **REPLICATED,
                **settings_of_node(number, NODES, None if number == 1 else first),
                **self.properties,
            }
        super().prepare()


class KafkaCluster(Cluster[ApacheKafka]):
    name = ApacheKafka.name

    def new_node(self, directory: Path) -> ApacheKafka:
        return ApacheKafka(directory)

    def prepare(self) -> None:
        controllers = {number: free_port() for number in self.nodes}
        voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in controllers.items())
        for number, node in self.nodes.items():
            node.properties = {
                **REPLICATED,
                "node.id": str(number),
                "controller.quorum.voters": voters,
                "listeners": f"PLAINTEXT://127.0.0.1:{node.port},CONTROLLER://127.0.0.1:{controllers[number]}",
                **self.properties,
            }
        super().prepare()
