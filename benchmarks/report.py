"""What a run says: a table for the eye, and a JSON line per metric in `results/<scenario>.jsonl` for later."""

import json
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, Final

from rich.table import Table

from benchmarks.page_cache import memory_bytes
from benchmarks.peers import Ottla, Peer
from benchmarks.rounds import Outcome
from ottla.client import librdkafka

RESULTS: Final = Path(__file__).resolve().parent / "results"


def machine_facts(peers: Sequence[Peer], *, quick: bool) -> dict[str, Any]:
    """Everything one needs to know to compare this run with another."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "quick": quick,
        "processor": _processor(),
        "cores": len(Path("/proc/cpuinfo").read_text().split("processor\t")) - 1,
        "memory_gib": round(memory_bytes("MemTotal") / (1 << 30), 1),
        "system": platform.release(),
        "python": platform.python_version(),
        "librdkafka": librdkafka.version(),
        "versions": {peer.name: peer.version() for peer in peers},
    }


def append_results(outcomes: Sequence[Outcome], facts: dict[str, Any]) -> None:
    RESULTS.mkdir(exist_ok=True)
    for outcome in outcomes:
        ours, theirs = outcome.median_of(Ottla.name), outcome.median_of(outcome.scenario.rival)
        line = {
            **facts,
            "scenario": outcome.scenario.name,
            "metric": outcome.metric.key,
            "unit": outcome.metric.unit,
            "values": outcome.values,
            "medians": {name: median(values) for name, values in outcome.values.items()},
            "ratio": ours / theirs if ours is not None and theirs else None,
            "goal": str(outcome.metric.goal) if outcome.metric.goal else None,
            "met": is_met(outcome),
        }
        with (RESULTS / f"{outcome.scenario.name}.jsonl").open("a") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def is_met(outcome: Outcome) -> bool | None:
    """Whether the goal was reached; None without a goal, or without the figures to tell."""
    ours = outcome.median_of(Ottla.name)
    if outcome.metric.goal is None or ours is None:
        return None
    return outcome.metric.goal.is_met(ours=ours, peers=outcome.median_of(outcome.scenario.rival))


def table_of(outcomes: Sequence[Outcome], facts: dict[str, Any]) -> Table:
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    warning = "QUICK: tiny counts, no figure to quote. " if facts["quick"] else ""
    table = Table(
        title=f"{warning}{versions}, librdkafka {facts['librdkafka']}",
        caption=f"{facts['cores']} × {facts['processor']}, {facts['memory_gib']} GiB; medians (least – greatest)",
    )
    table.add_column("what")
    rival = outcomes[0].scenario.rival if outcomes else ""
    for heading in (rival, Ottla.name, "ratio", "goal"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for outcome in outcomes:
        table.add_row(*_cells(outcome, judged=not facts["quick"]))
    return table


def line_of(outcome: Outcome) -> str:
    what, theirs, ours, ratio, *_ = _cells(outcome, judged=False)
    return f"{what}: {outcome.scenario.rival} {theirs}, {Ottla.name} {ours}, ratio {ratio}"


def _cells(outcome: Outcome, *, judged: bool) -> tuple[str, ...]:
    ours, theirs = outcome.median_of(Ottla.name), outcome.median_of(outcome.scenario.rival)
    verdict = {True: "[green]✓[/]", False: "[red]missed[/]", None: ""}[is_met(outcome) if judged else None]
    return (
        f"{outcome.metric.title} [dim]{outcome.metric.unit}[/]",
        _spread(outcome.values.get(outcome.scenario.rival)),
        _spread(outcome.values.get(Ottla.name)),
        f"{ours / theirs:.2f}" if ours is not None and theirs else "–",
        str(outcome.metric.goal or ""),
        verdict,
    )


def _spread(values: list[float] | None) -> str:
    if not values:
        return "–"
    if len(values) == 1:
        return _figure(values[0])
    return f"{_figure(median(values))} [dim]({_figure(min(values))} – {_figure(max(values))})[/]"


def _figure(value: float) -> str:
    """Three figures that count: 1.27 M, 55.1 k, 0.305."""
    if value >= 1e6:
        return f"{value / 1e6:.2f} M"
    if value >= 1e4:
        return f"{value / 1e3:.1f} k"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _commit() -> str:
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=RESULTS.parent, capture_output=True, text=True, check=False
    )
    return described.stdout.strip() or "unknown"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
