"""What a suite's tests came to, and what a suite has to offer so that `conformance_suites.py` can run it."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

ROOT: Final = Path(__file__).resolve().parents[1]
WORKSHOP: Final = ROOT / ".tools" / "conformance-suites"  # Sources, builds, and what each test printed.
KAFKA_LIBS: Final = ROOT / ".tools" / "kafka-libs"
REASON_CHARACTERS_MAX: Final = 200
DEFAULT_SCENARIO: Final = "default"
KAFKA_PYTHON_SCENARIO: Final = "kafka-python"


class State(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One test's end. `reason` says why it failed or was left out; `kafka` what a failed test does on Apache Kafka;
    `date` when it ran."""

    suite: str
    test: str
    state: State
    seconds: float = 0.0
    reason: str = ""
    kafka: str = ""
    date: str = ""


class Suite(Protocol):
    name: str
    version: str

    def prepare(self) -> None:
        """Fetch and build it, unless that was done before."""

    def units(self) -> list[str]:
        """What can be run by itself: a test, or a few that the suite cannot tell apart."""

    def scenario(self, unit: str) -> str:
        """The kind of broker that a unit wants: librdkafka has names for them, kafka-python has one kind."""

    def skipped(self) -> list[Outcome]:
        """The tests that are in no unit, with the reason."""

    def run(self, unit: str, bootstrap: str, output: Path) -> list[Outcome]:
        """Run a unit; what it prints goes into a file in the directory `output`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A process that ended, or was ended when its time was over."""

    status: int | None
    printed: str


def run_limited(
    command: Sequence[str], *, directory: Path, environment: Mapping[str, str], seconds_max: float, output: Path
) -> Finished:
    """Run a program in a process group of its own, so that nothing of it outlives its time."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("wb") as printed:
        process = subprocess.Popen(
            command,
            cwd=directory,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status: int | None = process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return Finished(status=status, printed=output.read_text(errors="replace"))


def require_programs(*names: str) -> None:
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        sys.exit(f"conformance suites need {', '.join(missing)}: not on the path (Debian: build-essential, npm)")


def shortened(text: str) -> str:
    """One line that fits into a table."""
    line = " ".join(text.split()).replace("|", "\\|").replace(f"{ROOT}/", "")
    return line if len(line) <= REASON_CHARACTERS_MAX else line[: REASON_CHARACTERS_MAX - 1] + "…"
