"""Whole lives of a log by seed: random operations, crashes of all kinds, always against the model.

A seed that ever failed stays in `REGRESSION_SEEDS`, though it lives another life after every change of the scenario.
To look at one: `python -m sim --scenario log --seed N`.
"""

import pytest

from sim.log_scenario import COMPACTED, SMALL, LogScenario, with_config

# A hole or an overlap between segments: 0, 18, 125, 752. Indexes of a sealed segment not saved: 1, 12, 33. Directory
# entries not synced after a kill: 43. Producer snapshots torn, stale or too old: 25, 108, 110, 888. A torn
# partition.metadata: 22, 470.
REGRESSION_SEEDS = (0, 1, 12, 18, 22, 25, 33, 43, 94, 108, 110, 125, 470, 752, 888)


@pytest.mark.parametrize("seed", REGRESSION_SEEDS)
def test_a_seed_that_once_failed(seed: int) -> None:
    LogScenario(seed).run()


@pytest.mark.parametrize("first_seed", range(10_000, 10_100, 10))
def test_ten_seeds_from(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 10):
        try:
            LogScenario(seed).run()
        except BaseException as error:
            error.add_note(f"seed {seed}: python -m sim --scenario log --seed {seed}")
            raise


def test_seeds_with_a_flush_for_every_message() -> None:
    for seed in range(20_000, 20_020):
        LogScenario(seed, with_config(SMALL, flush_messages=1)).run()


@pytest.mark.parametrize("first_seed", range(40_000, 40_060, 10))
def test_ten_lives_of_a_compacted_log_from(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 10):
        try:
            LogScenario(seed, COMPACTED).run()
        except BaseException as error:
            error.add_note(f"seed {seed}: python -m sim --scenario compacted-log --seed {seed}")
            raise


def test_a_seed_twice_gives_the_same_trace() -> None:
    first = [LogScenario(seed).run() for seed in range(30_000, 30_004)]
    assert first == [LogScenario(seed).run() for seed in range(30_000, 30_004)]
    assert len(set(first)) == 4
