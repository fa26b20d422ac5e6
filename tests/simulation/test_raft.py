"""The quorum under faults, by seed; and planted bugs, to know that the seeds would tell."""

from collections import Counter
from typing import Final

import pytest

from sim.raft_scenario import RaftScenario
from tests.simulation.raft_mutations import MUTATIONS, Mutation, find

SEED_COUNT: Final = 40
RARE: Final = (
    "batches truncated",
    "candidate → prospective",
    "crash between two effects",
    "crash that lost changes of the log",
    "directory wiped",
    "FetchReply with diverging",
    "leader → resigned",
    "snapshot installed",
    "voter set committed",
    "voter set rolled back",
)
FOUND_AT_ONCE: Final = (
    "neither vote nor epoch is persisted",
    "unsynced entries count",
    "a new leader truncates to its watermark",
    "two voter changes at once",
    "two votes in one epoch",
    "a leader that was lost is not asked again",
)


def test_nothing_committed_is_lost_and_calm_brings_progress() -> None:
    hits: Counter[str] = Counter()
    for seed in range(SEED_COUNT):
        scenario = RaftScenario(seed)
        scenario.run()
        hits += scenario.hits
    missing = [branch for branch in RARE if not hits[branch]]
    assert not missing, f"never reached: {missing}"


def test_a_seed_twice_gives_the_same_trace() -> None:
    assert [RaftScenario(seed).run() for seed in range(2)] == [RaftScenario(seed).run() for seed in range(2)]


@pytest.mark.parametrize("name", FOUND_AT_ONCE)
def test_a_planted_bug_is_found(name: str) -> None:
    """These take few seeds; `python -m tests.simulation.raft_mutations` looks for all."""
    (mutation,) = (mutation for mutation in MUTATIONS if mutation.name == name)
    assert isinstance(mutation, Mutation)
    assert find(mutation, range(60)) is not None
