"""Whole clusters in the simulated world: `sim/cluster_scenario.py` says what must hold.

Seeds that once failed, each for what it found, are run with the rest.
"""

import pytest

from sim.cluster_scenario import ClusterScenario
from sim.group_scenario import group_on_a_cluster
from sim.scenarios import SCENARIOS
from sim.transaction_scenario import transactions_on_a_cluster

ONCE_FAILED = (
    2,  # All in-sync replicas crashed: the controller compared logs, and nobody told how far theirs went.
    7,  # A node took the role it had before it registered, and led on with what its log had lost.
    22,  # A follower that had nothing yet told a consumer that its offset is out of range.
)


def play(name: str, seed: int) -> None:
    try:
        SCENARIOS[name](seed).run()
    except BaseException as error:
        error.add_note(f"python -m sim --scenario {name} --seed {seed}")
        raise


@pytest.mark.parametrize("seed", ONCE_FAILED)
def test_a_seed_that_once_failed(seed: int) -> None:
    play("cluster", seed)


@pytest.mark.parametrize("first_seed", range(30_000, 30_012, 4))
def test_four_seeds_from(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 4):
        play("cluster", seed)


@pytest.mark.parametrize("seed", [0, 1])  # Nodes that stopped waited for coordinators which had stopped before them.
def test_transactions_on_a_cluster(seed: int) -> None:
    play("cluster-transactions", seed)


def test_a_group_on_a_cluster() -> None:
    play("cluster-groups", 0)


@pytest.mark.parametrize("make", [ClusterScenario, transactions_on_a_cluster, group_on_a_cluster])
def test_a_seed_twice_gives_the_same_trace(make: type[ClusterScenario]) -> None:
    assert make(3).run() == make(3).run()
