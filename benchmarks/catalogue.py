"""Every scenario, in the order in which a full run takes them."""

from typing import Final

from benchmarks import compaction, exactly_once, groups, latency, lifecycle, requests, sessions, stalls, throughput
from benchmarks.rounds import Scenario

SCENARIOS: Final[tuple[Scenario, ...]] = (
    *throughput.SCENARIOS,
    *requests.SCENARIOS,
    *latency.SCENARIOS,
    *sessions.SCENARIOS,
    *groups.SCENARIOS,
    *exactly_once.SCENARIOS,
    *lifecycle.SCENARIOS,
    *stalls.SCENARIOS,
    *compaction.SCENARIOS,
)
