"""Every scenario has a name of its own, and a row that says what it measures."""

import re
from pathlib import Path

from benchmarks.catalogue import SCENARIOS

README = Path(__file__).parents[3] / "benchmarks" / "README.md"
# Rows may shorten a family: `produce-1k-lz4` … `consume-1k-zstd`.
SHORTENED = {"produce-1k-zstd", "consume-1k-lz4"}


def test_names_are_unique() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(names) == len(set(names))


def test_every_scenario_has_a_row() -> None:
    rows = [line for line in README.read_text().splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([\w-]+)`", row.split("|")[1])}
    assert {scenario.name for scenario in SCENARIOS} - named == SHORTENED


def test_metrics_of_a_scenario_are_told_apart() -> None:
    for scenario in SCENARIOS:
        keys = [metric.key for metric in scenario.metrics]
        assert keys and len(keys) == len(set(keys)), scenario.name
