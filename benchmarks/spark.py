"""`python -m benchmarks.spark`: Ottla's data source and sink beside Spark's official connector, both on Ottla.

The connectors take turns, round by round. `--only spark-copy-1k` picks scenarios, `--quick` proves that they work (tiny
counts) and gives no figure to quote. Exit code 1 when a goal was missed or a scenario failed.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.__main__ import PLAIN_WIDTH, list_of
from benchmarks.peers import Ottla, Peer, PeerError
from benchmarks.report import append_results, is_met, line_of, machine_facts, table_of
from benchmarks.rounds import Outcome, Scenario
from benchmarks.run import BROKEN
from benchmarks.spark_process import CONNECTOR
from benchmarks.spark_scenarios import CONNECTORS, OFFICIAL, SCENARIOS, Turn


def main() -> int:
    arguments = _arguments()
    console = Console(log_path=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    scratch = Path(tempfile.mkdtemp(prefix="ottla-bench-spark-", dir=arguments.scratch))
    broker = Ottla(scratch / "ottla")
    scenarios = [scenario for scenario in SCENARIOS if not arguments.only or scenario.name in arguments.only]
    try:
        broker.start()
        return _run(scenarios, broker, rounds=arguments.rounds, quick=arguments.quick, console=console)
    except PeerError as error:
        console.print(f"[red]{error}[/]")
        return 2
    finally:
        broker.discard()
        shutil.rmtree(scratch, ignore_errors=True)


def _run(scenarios: Sequence[Scenario], broker: Peer, *, rounds: int, quick: bool, console: Console) -> int:
    facts = _facts(broker, quick)
    outcomes: list[Outcome] = []
    failed: list[str] = []
    for scenario in scenarios:
        try:
            measured = _measure(scenario, broker, rounds=rounds, quick=quick, console=console)
        except BROKEN as error:
            console.log(f"[red]{scenario.name} failed: {error}[/]")
            failed.append(scenario.name)
            continue
        outcomes += measured
        for outcome in measured:
            console.log(line_of(outcome))
        if not quick:
            append_results(measured, facts)
    console.print(table_of(outcomes, facts))
    missed = [outcome for outcome in outcomes if is_met(outcome) is False and not quick]
    return 1 if failed or missed else 0


def _measure(scenario: Scenario, broker: Peer, *, rounds: int, quick: bool, console: Console) -> list[Outcome]:
    outcomes = [Outcome(scenario=scenario, metric=metric) for metric in scenario.metrics]
    for index in range(rounds):
        for connector in CONNECTORS:
            console.log(f"{scenario.name}: round {index + 1}, {connector}")
            turn = Turn(peer=broker, scenario=scenario.name, index=index, quick=quick, connector=connector)
            measured = scenario.measure(turn)
            for outcome in outcomes:
                if outcome.metric.key in measured:  # The official connector has no exactly-once.
                    outcome.values.setdefault(connector, []).append(measured[outcome.metric.key])
    return outcomes


def _facts(broker: Peer, quick: bool) -> dict[str, Any]:
    """With the versions of both connectors in place of two brokers."""
    connector = next((CONNECTOR / "jars").glob("spark-sql-kafka-*.jar"), None)
    versions = {OFFICIAL: connector.stem.rpartition("-")[2] if connector else "", Ottla.name: broker.version()}
    return {**machine_facts([broker], quick=quick), "versions": versions}


def _arguments() -> argparse.Namespace:
    names = [scenario.name for scenario in SCENARIOS]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.spark", description=__doc__, epilog=f"scenarios: {' '.join(names)}"
    )
    parser.add_argument("--only", type=list_of(names), default=[], metavar="NAME,…", help="scenarios to run (all)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="tiny counts: no figure to quote")
    parser.add_argument("--scratch", default=None, help="where data goes: a directory on a real disk, not in memory")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
