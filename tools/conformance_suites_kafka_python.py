"""kafka-python's integration tests, from its source distribution; each test is a run of pytest of its own."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Final

from tools.conformance_suites_outcome import (
    KAFKA_PYTHON_SCENARIO,
    WORKSHOP,
    Finished,
    Outcome,
    State,
    run_limited,
    shortened,
)

VERSION: Final = "3.0.12"
SOURCE: Final = WORKSHOP / "kafka-python"
TESTS: Final = "test/integration"
# What the distribution leaves out: without the first `test` is Python's own package, the second starts brokers for the
# tests, which here find one that runs.
MISSING_FILES: Final = {
    "__init__.py": "",
    "service.py": (
        "class ExternalService:\n    def __init__(self, host, port):\n        pass\n\n\n"
        "class SpawnedService:\n    pass\n"
    ),
}
BROKER_VERSION: Final = "4.3"
TEST_SECONDS_MAX: Final = 180.0
SKIPPED: Final = re.compile(r"^SKIPPED \[\d+\] \S+ (.*)$", re.MULTILINE)
ERROR: Final = re.compile(r"^E +(.*)$", re.MULTILINE)
UNFIT_FOR_A_FILE: Final = re.compile(r"[^\w.-]+")
# By the beginning of a test's name.
NOT_SERVED: Final = {
    "test_sasl_integration": "needs a broker with SASL",
    "test_ssl_integration": "needs a broker with TLS",
    # On Apache Kafka without one it fails as well.
    "test_admin_integration.py::test_create_describe_delete_acls": "needs a broker with an authorizer",
}


class KafkaPython:
    name = "kafka-python"
    version = VERSION

    def prepare(self) -> None:
        if SOURCE.exists():
            return
        WORKSHOP.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as scratch:
            download = ["download", "--quiet", "--no-deps", "--no-binary", "kafka-python", "--dest", scratch]
            subprocess.run([sys.executable, "-m", "pip", *download, f"kafka-python=={VERSION}"], check=True)
            [archive] = Path(scratch).glob("*.tar.gz")
            with tarfile.open(archive) as packed:
                packed.extractall(scratch, filter="data")
            shutil.move(Path(scratch) / f"kafka_python-{VERSION}", SOURCE)
        for name, text in MISSING_FILES.items():
            (SOURCE / "test" / name).write_text(text)

    def units(self) -> list[str]:
        return [test for test in self._collected() if not self._reason_not_run(test)]

    def scenario(self, unit: str) -> str:
        return KAFKA_PYTHON_SCENARIO

    def skipped(self) -> list[Outcome]:
        return [
            Outcome(suite=self.name, test=test, state=State.SKIP, reason=reason)
            for test in self._collected()
            if (reason := self._reason_not_run(test))
        ]

    def _collected(self) -> list[str]:
        listed = subprocess.run(
            [sys.executable, "-m", "pytest", "--collect-only", "-q", TESTS],
            cwd=SOURCE,
            env=environment(""),
            capture_output=True,
            text=True,
            check=True,
        )
        return [line.removeprefix(f"{TESTS}/") for line in listed.stdout.splitlines() if "::" in line]

    def _reason_not_run(self, test: str) -> str:
        return next((reason for start, reason in NOT_SERVED.items() if test.startswith(start)), "")

    def run(self, unit: str, bootstrap: str, output: Path) -> list[Outcome]:
        started = time.monotonic()
        finished = run_limited(
            [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", f"{TESTS}/{unit}"],
            directory=SOURCE,
            environment=environment(bootstrap),
            seconds_max=TEST_SECONDS_MAX,
            output=output / f"kafka-python-{UNFIT_FOR_A_FILE.sub('-', unit)}.log",
        )
        state, reason = judged(finished)
        seconds = time.monotonic() - started
        return [Outcome(suite=self.name, test=unit, state=state, seconds=seconds, reason=shortened(reason))]


def environment(bootstrap: str) -> dict[str, str]:
    """KAFKA_ROOT has to be a directory, though nothing is looked for in it when a broker runs already."""
    address = {"KAFKA_VERSION": BROKER_VERSION, "KAFKA_URI": f"kafka://{bootstrap}", "KAFKA_ROOT": str(SOURCE)}
    return {**os.environ, **address}


def judged(finished: Finished) -> tuple[State, str]:
    if finished.status is None:
        return State.FAIL, f"no result in {TEST_SECONDS_MAX:.0f} s"
    if finished.status != 0:
        errors = ERROR.findall(finished.printed)
        return State.FAIL, errors[0] if errors else f"pytest ended with {finished.status}"
    skipped = SKIPPED.findall(finished.printed)
    return (State.SKIP, skipped[-1]) if skipped else (State.PASS, "")
