"""The record of the suites: one JSON line per test, and the tables in docs/CONFORMANCE.md made from those lines.

A run of some tests replaces their lines alone, so the tables always show the last result of every test.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Final

from tools.conformance_suites_outcome import ROOT, Outcome, State

LINES: Final = ROOT / "docs" / "conformance_suites.jsonl"
DOCUMENT: Final = ROOT / "docs" / "CONFORMANCE.md"
BEGIN: Final = "<!-- suites: written by make conformance-suites -->"
END: Final = "<!-- end of suites -->"

Record = dict[str, Outcome]


def read_record(path: Path = LINES) -> Record:
    if not path.exists():
        return {}
    outcomes = [Outcome(**json.loads(line)) for line in path.read_text().splitlines()]
    return {f"{outcome.suite} {outcome.test}": outcome for outcome in outcomes}


def write_record(outcomes: Iterable[Outcome], path: Path = LINES) -> Record:
    """Add outcomes to what is recorded; answers the whole record."""
    record = read_record(path)
    record.update({f"{outcome.suite} {outcome.test}": outcome for outcome in outcomes})
    kept = dict(sorted(record.items()))
    path.write_text("".join(json.dumps(asdict(outcome)) + "\n" for outcome in kept.values()))
    return kept


def write_tables(record: Record, versions: dict[str, str]) -> None:
    text = DOCUMENT.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    tables = [table(name, version, record) for name, version in versions.items()]
    DOCUMENT.write_text(before + "\n\n".join([BEGIN, *tables, END]) + after)


def table(suite: str, version: str, record: Record) -> str:
    outcomes = [outcome for outcome in record.values() if outcome.suite == suite]
    counts = Counter(outcome.state for outcome in outcomes)
    summary = ", ".join(f"{counts[state]} {state}" for state in State)
    dates = sorted({outcome.date for outcome in outcomes})
    ran = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    lines = [f"### {suite} {version}: {summary} ({ran})", "", "| test | result | s | note |", "|---|---|---|---|"]
    for outcome in outcomes:
        note = "; ".join(part for part in (outcome.reason, outcome.kafka) if part)
        seconds = "" if outcome.state is State.SKIP else f"{outcome.seconds:.1f}"
        lines.append(f"| {outcome.test} | {outcome.state} | {seconds} | {note} |")
    return "\n".join(lines)
