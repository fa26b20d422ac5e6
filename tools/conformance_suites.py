"""Run the test suites that librdkafka and kafka-python have for themselves against Ottla, test by test.

    python -m tools.conformance_suites                          every test of both
    python -m tools.conformance_suites librdkafka 0012 0081     some units of one, or all of a bundle
    OTTLA_CONFORMANCE_BOOTSTRAP=host:port python -m …           against that broker; prints, records nothing

Each result becomes a line of docs/conformance_suites.jsonl, and those lines the tables in docs/CONFORMANCE.md. A test
that fails runs once more against the Apache Kafka in .tools, started for it: one that fails there too is no fault of
Ottla's, and its line says so.
"""

import os
import re
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import ottla.testing
from benchmarks.peers import ApacheKafka
from tools.conformance_suites_kafka_python import KafkaPython
from tools.conformance_suites_librdkafka import Librdkafka
from tools.conformance_suites_outcome import (
    DEFAULT_SCENARIO,
    KAFKA_PYTHON_SCENARIO,
    WORKSHOP,
    Outcome,
    State,
    Suite,
)
from tools.conformance_suites_report import write_record, write_tables

SUITES: Final[tuple[Suite, ...]] = (Librdkafka(), KafkaPython())
BROKER_CONFIG: Final = {"num.partitions": "4"}  # What both suites' own clusters have.
# kafka-python's tests place partitions on node 0, the id that its own brokers have.
NODE_ID: Final = {"node.id": "0"}
SCENARIOS: Final[dict[str, dict[str, str]]] = {
    DEFAULT_SCENARIO: {},
    "noautocreate": {"auto.create.topics.enable": "false"},
    # As on kafka-python's own brokers: test_group's members have sessions of three seconds, Kafka's least is six.
    KAFKA_PYTHON_SCENARIO: {"group.min.session.timeout.ms": "1000", "group.initial.rebalance.delay.ms": "0"},
}
OUTPUT: Final = WORKSHOP / "output"
FOREIGN_BOOTSTRAP: Final = os.environ.get("OTTLA_CONFORMANCE_BOOTSTRAP")
FAILS_THERE: Final = "fails on"
PART: Final = re.compile(r"/|@|::")

StartBroker = Callable[[dict[str, str], ExitStack], str]


class SmallApacheKafka(ApacheKafka):
    heap = "512m"


class Brokers:
    """One broker per scenario, started when first asked for."""

    def __init__(self, start: StartBroker, stack: ExitStack) -> None:
        self._start, self._stack = start, stack
        self._addresses: dict[str, str] = {}

    def address(self, scenario: str) -> str:
        if scenario not in self._addresses:
            self._addresses[scenario] = self._start(BROKER_CONFIG | SCENARIOS[scenario], self._stack)
        return self._addresses[scenario]


def start_ottla(config: dict[str, str], stack: ExitStack) -> str:
    if FOREIGN_BOOTSTRAP:
        return FOREIGN_BOOTSTRAP
    return stack.enter_context(ottla.testing.broker(config=config | NODE_ID)).bootstrap_servers


def start_kafka(config: dict[str, str], stack: ExitStack) -> str:
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    kafka = SmallApacheKafka(directory / "kafka", properties=config)
    kafka.prepare()
    stack.callback(kafka.discard)
    kafka.start()
    return kafka.bootstrap


def main() -> None:
    chosen, wanted = sys.argv[1:2], sys.argv[2:]
    suites = [suite for suite in SUITES if not chosen or suite.name in chosen]
    if not suites:
        sys.exit(f"usage: conformance_suites [{' | '.join(suite.name for suite in SUITES)} [unit …]]")
    with ExitStack() as stack:
        brokers, kafkas = Brokers(start_ottla, stack), Brokers(start_kafka, stack)
        failed = [outcome for suite in suites for outcome in run_suite(suite, wanted, brokers, kafkas)]
    sys.exit(f"{len(failed)} tests failed" if failed else 0)


def run_suite(suite: Suite, wanted: list[str], brokers: Brokers, kafkas: Brokers) -> list[Outcome]:
    """Runs and records a suite; answers what failed here and not on Apache Kafka."""
    suite.prepare()
    if not FOREIGN_BOOTSTRAP:
        record(suite.skipped())
    failed = []
    for unit in [unit for unit in suite.units() if is_wanted(unit, wanted)]:
        outcomes = tried(suite, unit, brokers.address(suite.scenario(unit)))
        if not FOREIGN_BOOTSTRAP:
            outcomes = compared(suite, unit, outcomes, kafkas)
            record(outcomes)
        for outcome in outcomes:
            said = f"{outcome.reason}  {outcome.kafka}".strip()
            print(f"{outcome.state:4}  {outcome.seconds:6.1f} s  {outcome.test}  {said}", flush=True)
        failed += [one for one in outcomes if one.state is State.FAIL and not one.kafka.startswith(FAILS_THERE)]
    return failed


def is_wanted(unit: str, wanted: list[str]) -> bool:
    """By its whole name, or by what it is a part of: 0081/do_test_ListOffsets by 0081, a test by its file."""
    return not wanted or unit in wanted or PART.split(unit)[0] in wanted


def tried(suite: Suite, unit: str, bootstrap: str) -> list[Outcome]:
    """Once more where something failed: some tests wait exactly as long as what they wait for takes."""
    first = suite.run(unit, bootstrap, OUTPUT / "broker")
    if all(outcome.state is not State.FAIL for outcome in first):
        return first
    reasons = {outcome.test: outcome.reason for outcome in first if outcome.state is State.FAIL}
    second = suite.run(unit, bootstrap, OUTPUT / "broker")
    return [
        replace(outcome, reason=f"at the second try; at the first: {reasons[outcome.test]}")
        if outcome.state is State.PASS and outcome.test in reasons
        else outcome
        for outcome in second
    ]


def compared(suite: Suite, unit: str, outcomes: list[Outcome], kafkas: Brokers) -> list[Outcome]:
    """The outcomes, those that failed with what the same test does on Apache Kafka."""
    if all(outcome.state is not State.FAIL for outcome in outcomes):
        return outcomes
    on_kafka = suite.run(unit, kafkas.address(suite.scenario(unit)), OUTPUT / "apache-kafka")
    there = {outcome.test: outcome for outcome in on_kafka}
    return [
        replace(outcome, kafka=said_of(there[outcome.test])) if outcome.state is State.FAIL else outcome
        for outcome in outcomes
    ]


def said_of(there: Outcome) -> str:
    verdict = {State.PASS: "passes on", State.FAIL: FAILS_THERE, State.SKIP: "is skipped on"}[there.state]
    reason = f": {there.reason}" if there.reason else ""
    return f"{verdict} Apache Kafka{reason}"


def record(outcomes: list[Outcome]) -> None:
    """After every unit, so that a run that is broken off has not been in vain."""
    today = datetime.now(UTC).date().isoformat()
    recorded = write_record(replace(outcome, date=today) for outcome in outcomes)
    write_tables(recorded, {suite.name: suite.version for suite in SUITES})


if __name__ == "__main__":
    main()
