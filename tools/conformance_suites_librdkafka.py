"""librdkafka's own test suite: which of its tests run, one after another, and what each came to.

The runner takes tests by number, so a unit is a number with its tests of one scenario ("0045", "0045@noautocreate"), or
one subtest where a test is a bundle that ends at its first failure ("0081/do_test_ListOffsets"). The options are `-p1 -Q
-E`: one at a time, the quick variant of each, without the emulated sockets that need another build. A test that does
nothing at all when quick runs once more without `-Q`. The broker it is told of is Kafka 4.2.0.
"""

import re
from pathlib import Path
from typing import Final

from tools.conformance_suites_librdkafka_source import (
    AUTHORIZER_NEEDED,
    KAFKA_HOME,
    NEED_AUTHORIZER,
    RUNNER,
    SOURCE,
    TESTS,
    declared_tests,
    prepare,
    subtests,
    version,
)
from tools.conformance_suites_outcome import DEFAULT_SCENARIO, Finished, Outcome, State, run_limited, shortened

BROKER_VERSION: Final = "4.2.0"
# The tests' own time-outs are for a machine that does nothing else.
CONFIGURATION: Final = "bootstrap.servers={bootstrap}\ntest.topic.random=true\ntest.timeout.multiplier=3\n"
UNIT_SECONDS_MAX: Final = 600.0
NOTHING_SECONDS: Final = 0.01
BUNDLES: Final = {"0081": "0081-admin.c", "0103": "0103-transactions.c"}

SUMMARY: Final = re.compile(
    r"^\|\s*(\d{4}_\w+)\s*\|\s*(PASSED|FAILED|SKIPPED|RUNNING)\s*\|\s*([\d.]+)s\s*\|(.*)$", re.MULTILINE
)
COLOUR: Final = re.compile(r"\x1b\[[\d;]*m")
FAILURE: Final = re.compile(r"^### Test \"\d.* ###\n(.*)$", re.MULTILINE)
ASSERTION: Final = re.compile(
    r"^.*Test assertion failed: \".*\": (?=\S)"
)  # What was expected, in C; what was found follows.
STATES: Final = {"PASSED": State.PASS, "FAILED": State.FAIL, "RUNNING": State.FAIL, "SKIPPED": State.SKIP}


class Librdkafka:
    name = "librdkafka"

    @property
    def version(self) -> str:
        return version()

    def prepare(self) -> None:
        prepare()

    def units(self) -> list[str]:
        found: dict[str, None] = {}
        for test in declared_tests():
            if test.reason_not_run:
                continue
            if test.number in BUNDLES:
                parts = [part for part in subtests(BUNDLES[test.number]) if part not in NEED_AUTHORIZER]
                found.update((f"{test.number}/{part}", None) for part in parts)
            else:
                suffix = "" if test.scenario == DEFAULT_SCENARIO else f"@{test.scenario}"
                found[test.number + suffix] = None
        return list(found)

    def scenario(self, unit: str) -> str:
        return unit.partition("@")[2] or DEFAULT_SCENARIO

    def skipped(self) -> list[Outcome]:
        reasons: dict[str, str] = {}
        for test in declared_tests():
            if test.reason_not_run:
                reasons[test.name] = test.reason_not_run
            elif test.number in BUNDLES:
                parts = [part for part in subtests(BUNDLES[test.number]) if part in NEED_AUTHORIZER]
                reasons.update((f"{test.name}/{part}", AUTHORIZER_NEEDED) for part in parts)
        return [
            Outcome(suite=self.name, test=test, state=State.SKIP, reason=reason) for test, reason in reasons.items()
        ]

    def run(self, unit: str, bootstrap: str, output: Path) -> list[Outcome]:
        quick = self._outcomes(unit, self._finished(unit, bootstrap, output, ["-Q"]))
        if all(outcome.state is State.PASS and outcome.seconds < NOTHING_SECONDS for outcome in quick):
            return self._outcomes(unit, self._finished(unit, bootstrap, output, []))
        return quick

    def _finished(self, unit: str, bootstrap: str, output: Path, options: list[str]) -> Finished:
        output.mkdir(parents=True, exist_ok=True)
        label = unit.replace("/", "-")
        number, _, subtest = unit.partition("@")[0].partition("/")
        configuration = output / f"librdkafka-{label}.conf"
        configuration.write_text(CONFIGURATION.format(bootstrap=bootstrap))
        return run_limited(
            [str(RUNNER), "-p1", "-E", "-L", "-s", self.scenario(unit), *options],
            directory=TESTS,
            environment={
                "TESTS": number,
                **({"SUBTESTS": subtest} if subtest else {}),
                "TEST_KAFKA_VERSION": BROKER_VERSION,
                "RDKAFKA_TEST_CONF": str(configuration),
                "KAFKA_PATH": str(KAFKA_HOME),
                "BROKERS": bootstrap,
                "LD_LIBRARY_PATH": f"{SOURCE / 'src'}:{SOURCE / 'src-cpp'}",
            },
            seconds_max=UNIT_SECONDS_MAX,
            output=output / f"librdkafka-{label}.log",
        )

    def _outcomes(self, unit: str, finished: Finished) -> list[Outcome]:
        printed = COLOUR.sub("", finished.printed)
        found = {name: (state, seconds, reason) for name, state, seconds, reason in SUMMARY.findall(printed)}
        ended = f"no result in {UNIT_SECONDS_MAX:.0f} s; " if finished.status is None else ""
        number, separator, subtest = unit.partition("@")[0].partition("/")
        outcomes = []
        for test in declared_tests():
            if test.number != number or test.reason_not_run or test.scenario != self.scenario(unit):
                continue
            state, seconds, reason = found.get(test.name, ("FAILED", "0", ended + first_complaint(printed)))
            outcomes.append(
                Outcome(
                    suite=self.name,
                    test=test.name + separator + subtest,
                    state=STATES[state],
                    seconds=float(seconds),
                    reason="" if state == "PASSED" else shortened(ASSERTION.sub("", reason)),
                )
            )
        return outcomes


def first_complaint(printed: str) -> str:
    """What failed first: a runner that cannot clean up after it ends before its summary."""
    found = FAILURE.search(printed)
    return found[1] if found else "it said nothing"
