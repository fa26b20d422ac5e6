"""Links that stay cut: who can reach a majority leads, and who cannot disturbs nobody (`make chaos` does it for real)."""

from collections.abc import Callable

import pytest

from ottla.base.types import NodeId
from sim.raft_cluster import DEFAULT, RaftCluster, voter_set
from tests.simulation.test_raft_failover import committing_leader

NODES = [1, 2, 3, 4, 5]
SEEDS = range(5)


def cluster_with_leader(seed: int) -> tuple[RaftCluster, NodeId]:
    cluster = RaftCluster(seed, NODES, voter_set(*NODES), DEFAULT)
    assert cluster.run_until(lambda: committing_leader(cluster) is not None, 20_000)
    leader = committing_leader(cluster)
    assert leader is not None
    cluster.run_for(1_000)
    return cluster, leader.key.node_id


def cut(cluster: RaftCluster, is_up: Callable[[NodeId, NodeId], bool]) -> None:
    cluster.blocked = {(one, other) for one in NODES for other in NODES if one != other and not is_up(one, other)}


def epochs(cluster: RaftCluster) -> set[int]:
    return {peer.machine.node.epoch for peer in cluster.peers.values()}


@pytest.mark.parametrize("seed", SEEDS)
def test_one_node_that_all_others_see_becomes_the_leader(seed: int) -> None:
    """The old leader is cut from the majority and resigns by itself; only the hub can win."""
    cluster, old_id = cluster_with_leader(seed)
    hub_id = old_id % 5 + 1
    cut(cluster, lambda one, other: hub_id in (one, other))

    def hub_leads() -> bool:
        leader = committing_leader(cluster)
        return leader is not None and leader.key.node_id == hub_id

    assert cluster.run_until(hub_leads, 30_000)


@pytest.mark.parametrize("seed", SEEDS)
def test_in_a_ring_of_majorities_the_leader_stays(seed: int) -> None:
    """Every node sees its two neighbours: the two who do not see the leader find no majority that lost it."""
    cluster, leader_id = cluster_with_leader(seed)
    before = epochs(cluster)
    cut(cluster, lambda one, other: abs(one - other) in (1, 4))
    cluster.run_for(30_000)
    leader = committing_leader(cluster)
    assert leader is not None and leader.key.node_id == leader_id
    assert epochs(cluster) == before


@pytest.mark.parametrize("direction", ["hears nothing", "is not heard"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_follower_with_a_one_way_link_deposes_nobody(seed: int, direction: str) -> None:
    cluster, leader_id = cluster_with_leader(seed)
    odd_id = leader_id % 5 + 1
    before = epochs(cluster)
    deaf = direction == "hears nothing"
    cut(cluster, lambda one, other: (other if deaf else one) != odd_id)
    cluster.run_for(20_000)
    cluster.blocked = set()
    cluster.run_for(5_000)
    assert epochs(cluster) == before
    leader = committing_leader(cluster)
    assert leader is not None and leader.key.node_id == leader_id
    assert len({peer.applied_end for peer in cluster.peers.values()}) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_leader_that_hears_nobody_gives_way(seed: int) -> None:
    """Its BeginEpochs still arrive: they must not keep the others from electing."""
    cluster, old_id = cluster_with_leader(seed)
    cut(cluster, lambda _, other: other != old_id)

    def is_replaced() -> bool:
        leader = committing_leader(cluster)
        return leader is not None and leader.key.node_id != old_id

    assert cluster.run_until(is_replaced, 30_000)
