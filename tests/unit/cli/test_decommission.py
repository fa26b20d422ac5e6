"""`ottla cluster decommission`: what keeps a broker from being emptied, above all when it is dead already."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from ottla.base.types import TopicPartition
from ottla.cli.decommission import move_off
from ottla.client.admin import Admin
from ottla.client.cluster_states import BrokerState, ClusterMembers, QuorumState, Reassignment
from ottla.client.topics import PartitionInfo

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class MovingCluster:
    """As `Admin` shows it: what is moved to running brokers arrives at once, anything else never does."""

    def __init__(self, replicas: Mapping[TopicPartition, tuple[int, ...]], *, down: int) -> None:
        self.replicas = dict(replicas)
        self.under_way: dict[TopicPartition, Reassignment] = {}
        self.cancelled: list[TopicPartition] = []
        self._down = down

    def list_reassignments(self) -> dict[TopicPartition, Reassignment]:
        return dict(self.under_way)

    def alter_reassignments(self, replicas: Mapping[TopicPartition, Sequence[int] | None]) -> None:
        for where, wanted in replicas.items():
            if wanted is None:
                self.cancelled.append(where)
                del self.under_way[where]
            elif self._down in wanted:
                before = self.replicas[where]
                adding = tuple(node for node in wanted if node not in before)
                removing = tuple(node for node in before if node not in wanted)
                self.under_way[where] = Reassignment(replicas=(*wanted, *removing), adding=adding, removing=removing)
            else:
                self.replicas[where] = tuple(wanted)

    def describe_members(self) -> ClusterMembers:
        brokers = (
            BrokerState(id=node, host=f"host{node}", port=9092, rack=None, is_fenced=node == self._down)
            for node in range(1, 5)
        )
        return ClusterMembers(cluster_id="test", brokers=tuple(brokers))

    def list_partitions(self) -> dict[TopicPartition, PartitionInfo]:
        return {
            where: PartitionInfo(
                partition=where.partition,
                leader=next(node for node in nodes if node != self._down),
                replicas=nodes,
                in_sync_replicas=tuple(node for node in nodes if node != self._down),
            )
            for where, nodes in self.replicas.items()
        }

    def describe_topic_configs(self, topics: Sequence[str], keys: Sequence[str]) -> dict[str, dict[str, str]]:
        return {topic: {} for topic in topics}

    def describe_quorum(self) -> QuorumState:
        return QuorumState(leader=1, leader_epoch=1, high_watermark=1, voters=(), observers=())

    def describe_log_directories(self, *_: Any) -> dict[int, list[Any]]:
        return {}

    def alter_configs(self, *_: Any, broker: int, changes: Mapping[str, object]) -> None:
        assert broker != self._down and not any(changes.values()), "throttles are taken back where brokers run"

    def elect_leaders(self, partitions: Sequence[TopicPartition]) -> None:
        raise AssertionError("every partition has its leader")


def test_moves_to_the_broker_that_leaves_are_given_up_and_what_it_has_goes_elsewhere() -> None:
    cluster = MovingCluster({P0: (1, 4), P1: (1, 2)}, down=4)
    cluster.alter_reassignments({P1: (1, 4)})
    assert move_off(cast(Admin, cluster), 4, throttle_bytes=None, ask=False) == 1
    assert cluster.cancelled == [P1]
    assert cluster.under_way == {}
    assert cluster.replicas[P1] == (1, 2)
    assert 4 not in cluster.replicas[P0]
