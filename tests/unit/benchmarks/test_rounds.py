"""Rounds interleave, goals judge, percentiles are values that were measured."""

from pathlib import Path

import pytest

from benchmarks.peers import ApacheKafka, Ottla
from benchmarks.percentiles import percentile
from benchmarks.profile_broker import Profile
from benchmarks.report import is_met
from benchmarks.rounds import Goal, Metric, Outcome, Round, Scenario, run_scenario


@pytest.mark.parametrize(
    ("goal", "ours", "peers", "expected"),
    [
        (Goal(ratio_min=1.6), 160.0, 100.0, True),
        (Goal(ratio_min=1.6), 159.0, 100.0, False),
        (Goal(ratio_max=0.5), 50.0, 100.0, True),
        (Goal(ratio_max=0.5), 51.0, 100.0, False),
        (Goal(ratio_min=1.6, ours_min=1_000), 900.0, 100.0, False),
        (Goal(ours_max=20), 19.0, None, True),
        (Goal(ours_max=20), 21.0, None, False),
        (Goal(ratio_min=1.6), 160.0, None, None),
    ],
)
def test_every_bound_of_a_goal_counts(goal: Goal, ours: float, peers: float | None, expected: bool | None) -> None:
    assert goal.is_met(ours=ours, peers=peers) is expected


def test_a_goal_is_readable() -> None:
    assert str(Goal(ratio_min=1.6, ours_min=1_000_000)) == "≥ 1.6 ×, ≥ 1,000,000"


def test_brokers_take_turns_and_medians_are_judged(tmp_path: Path) -> None:
    turns: list[tuple[int, str]] = []
    figures = {ApacheKafka.name: [1.0, 9.0, 2.0], Ottla.name: [4.0, 4.0, 99.0]}

    def measure(turn: Round) -> dict[str, float]:
        turns.append((turn.index, turn.peer.name))
        return {"rate": figures[turn.peer.name][turn.index]}

    metric = Metric(key="rate", title="rate", unit="1/s", goal=Goal(ratio_min=2.0))
    scenario = Scenario(name="any", metrics=(metric,), measure=measure)
    peers = [ApacheKafka(tmp_path / "kafka"), Ottla(tmp_path / "ottla")]
    [outcome] = run_scenario(scenario, peers, rounds=3, quick=True, before_each=lambda turn: None)
    assert turns == [(index, peer.name) for index in range(3) for peer in peers]
    assert (outcome.median_of(ApacheKafka.name), outcome.median_of(Ottla.name)) == (2.0, 4.0)
    assert is_met(outcome) is True


def test_without_figures_nothing_is_judged() -> None:
    scenario = Scenario(name="any", metrics=(), measure=lambda turn: {})
    metric = Metric(key="rate", title="rate", unit="1/s", goal=Goal(ratio_min=2.0))
    assert is_met(Outcome(scenario=scenario, metric=metric)) is None


def test_percentiles_are_measured_values() -> None:
    values = [float(value) for value in range(1_000, 0, -1)]
    assert [percentile(values, share) for share in (50, 99, 99.9, 100)] == [500.0, 990.0, 999.0, 1_000.0]
    assert percentile([7.0], 50) == 7.0


def test_a_profile_counts_recursion_once_and_leaves_idle_workers_out() -> None:
    lines = ["main;walk;walk 3", "main;send 1", "run;_worker (concurrent/futures/thread.py:81) 50"]
    profile = Profile.of_stacks(lines)
    assert profile.samples == 4
    assert (profile.own["walk"], profile.whole["walk"], profile.whole["main"]) == (3, 3, 4)
