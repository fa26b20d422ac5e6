"""Interleaved rounds: peer, ours, peer, ours …, so that a noisy minute hits both; medians and the goals they face.

A scenario measures one or several metrics of one broker in one round. It knows nothing of the other broker: whoever
comes first or second is decided here, once.
"""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from benchmarks.peers import Peer
from benchmarks.topics import create_topics

QUICK_SHARE: Final = 0.02  # Of the full message counts and durations: enough to see that a scenario works.


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What Ottla's median must reach, against Kafka's in the same run or by itself. Every bound given must hold."""

    ratio_min: float | None = None
    ratio_max: float | None = None
    ours_min: float | None = None
    ours_max: float | None = None

    def is_met(self, *, ours: float, peers: float | None) -> bool | None:
        """None when a bound needs the peer's figure and there is none."""
        ratio = ours / peers if peers else None
        verdicts: list[bool | None] = []
        for bound, value, holds in (
            (self.ratio_min, ratio, operator.ge),
            (self.ratio_max, ratio, operator.le),
            (self.ours_min, ours, operator.ge),
            (self.ours_max, ours, operator.le),
        ):
            if bound is not None:
                verdicts.append(None if value is None else holds(value, bound))
        return None if None in verdicts else all(verdicts)

    def __str__(self) -> str:
        parts = (
            ("≥ {:g} ×", self.ratio_min),
            ("≤ {:g} ×", self.ratio_max),
            ("≥ {:,.10g}", self.ours_min),
            ("≤ {:,.10g}", self.ours_max),
        )
        return ", ".join(text.format(bound) for text, bound in parts if bound is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    key: str
    title: str
    unit: str
    goal: Goal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One broker's turn. What it writes goes to topics of its own; they stay until the end (see page_cache.py)."""

    peer: Peer
    scenario: str
    index: int
    quick: bool

    def scaled(self, full: int, *, at_least: int = 1) -> int:
        """A message count, or whatever else a quick run may cut."""
        return max(at_least, int(full * QUICK_SHARE)) if self.quick else full

    def topic_of_all_rounds(self, fill: Callable[[str], object]) -> str:
        """A topic made and filled in the first round and read in every one."""
        if self.index == 0:
            fill(self.create_topic("all"))
        return f"bench-{self.scenario}-all"

    def create_topic(
        self,
        label: str = "",
        *,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
    ) -> str:
        name = self.topic_name(label)
        create_topics(self.peer, {name: partitions}, configs=configs)
        return name

    def topic_name(self, label: str = "") -> str:
        return f"bench-{self.scenario}-{label or self.index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    name: str
    metrics: Sequence[Metric]
    measure: Callable[[Round], Mapping[str, float]]
    own_broker: bool = False  # Starts and stops brokers itself; the shared ones are down meanwhile.
    rounds_max: int | None = None
    rival: str = "Apache Kafka"  # Whom Ottla is compared with.


@dataclass(slots=True, kw_only=True)
class Outcome:
    """Every value of one metric, by broker, in the order of the rounds."""

    scenario: Scenario
    metric: Metric
    values: dict[str, list[float]] = field(default_factory=dict)

    def median_of(self, broker: str) -> float | None:
        values = self.values.get(broker)
        return median(values) if values else None


def run_scenario(
    scenario: Scenario, peers: Sequence[Peer], *, rounds: int, quick: bool, before_each: Callable[[Round], None]
) -> list[Outcome]:
    outcomes = [Outcome(scenario=scenario, metric=metric) for metric in scenario.metrics]
    for turn in _turns(scenario, peers, rounds=rounds, quick=quick):
        before_each(turn)
        measured = scenario.measure(turn)
        for outcome in outcomes:
            outcome.values.setdefault(turn.peer.name, []).append(measured[outcome.metric.key])
    return outcomes


def _turns(scenario: Scenario, peers: Sequence[Peer], *, rounds: int, quick: bool) -> Iterator[Round]:
    for index in range(min(rounds, scenario.rounds_max or rounds)):
        for peer in peers:
            yield Round(peer=peer, scenario=scenario.name, index=index, quick=quick)
