"""Whole clusters in the simulated world: `sim/cluster_scenario.py` says what must hold.

Seeds that once failed, each for what it found, are run with the rest.
"""

import itertools

import pytest

from sim.cluster_scenario import ClusterScenario
from sim.group_scenario import group_on_a_cluster
from sim.scenarios import SCENARIOS
from sim.transaction_scenario import transactions_on_a_cluster
from sim.troubled_cluster import Shape

ONCE_FAILED = (
    3,  # A broker whose disk was replaced never led again: the metadata had its replicas in the old directory.
    10,  # A read error ended the task that follows the metadata, and the node went on as if nothing was decided any more.
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


def test_every_kind_of_fault_and_every_shape_is_drawn_by_some_seed() -> None:
    subjects = [ClusterScenario(seed).subject for seed in range(100)]
    assert {name for one in subjects for name in one.faults.names} == set(subjects[0].faults.kinds)
    truths = (False, True)
    assert {one.shape for one in subjects} == {Shape(*each) for each in itertools.product((3, 4, 5), truths, truths)}


def test_voters_are_not_removed_where_a_disk_may_be_lost() -> None:
    drawn = [set(ClusterScenario(seed).subject.faults.names) for seed in range(100)]
    assert not [names for names in drawn if names >= {"wiped", "voters"}]


@pytest.mark.parametrize("make", [ClusterScenario, transactions_on_a_cluster, group_on_a_cluster])
def test_a_seed_twice_gives_the_same_trace(make: type[ClusterScenario]) -> None:
    assert make(3).run() == make(3).run()
