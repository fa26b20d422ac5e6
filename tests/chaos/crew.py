"""Client processes in numbered places, each with its own file of what it did; whoever dies is replaced.

A process that is suspended is replaced at once, so that it is a zombie when it goes on: everything it still believes to
own belongs to its successor.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

REPOSITORY: Final = Path(__file__).parents[2]
STOP_SECONDS_MAX: Final = 60.0
ERROR_LINES_SHOWN: Final = 15


class Crew:
    def __init__(self, module: str, *, size: int, directory: Path, settings: Mapping[str, Any]) -> None:
        """`module` is run with its settings, its number, its incarnation and the path of its journal as JSON."""
        self._module = module
        self._directory = directory
        self._settings = settings
        self._incarnations = [0] * size
        self._suspended: list[subprocess.Popen[bytes]] = []
        self.exits: Counter[str] = Counter()
        self._members = [self._start(number) for number in range(size)]

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        own = {"number": number, "incarnation": self._incarnations[number], "journal": str(self._journal(number))}
        self._incarnations[number] += 1
        with self._errors(number).open("ab") as errors:
            return subprocess.Popen(
                [sys.executable, "-m", self._module, json.dumps({**self._settings, **own})],
                cwd=REPOSITORY,
                stdin=subprocess.PIPE,  # Which closes with us: `end_with_parent`.
                stderr=errors,
            )

    def _journal(self, number: int) -> Path:
        return self._directory / f"{number}.journal"

    def _errors(self, number: int) -> Path:
        return self._directory / f"{number}.errors"

    def journal_lines(self) -> Iterator[tuple[int, list[str]]]:
        """What every process wrote down, as (number, words). A line that a kill cut off tells nothing."""
        for number in range(len(self._members)):
            if self._journal(number).exists():
                for line in self._journal(number).read_text().splitlines(keepends=True):
                    if line.endswith("\n"):
                        yield number, line.split()

    @property
    def last_words(self) -> str:
        paths = [self._errors(number) for number in range(len(self._members))]
        return "\n".join(line for path in paths for line in path.read_text().splitlines()[-ERROR_LINES_SHOWN:])

    # -- harm --------------------------------------------------------------------------------------------------------

    def kill_one(self, chance: random.Random) -> None:
        process = chance.choice(self._members)
        process.kill()
        process.wait()

    def stop_one(self, chance: random.Random) -> None:
        """SIGTERM: it finishes what it is at."""
        chance.choice(self._members).terminate()

    def suspend_one(self, chance: random.Random) -> None:
        number = chance.randrange(len(self._members))
        self._members[number].send_signal(signal.SIGSTOP)
        self._suspended.append(self._members[number])
        self._members[number] = self._start(number)

    def resume_all(self) -> None:
        for process in self._suspended:
            process.send_signal(signal.SIGCONT)

    # -- care --------------------------------------------------------------------------------------------------------

    def tend(self) -> None:
        """Replaces those that ended, by our hand or by their own."""
        for number, process in enumerate(self._members):
            if process.poll() is not None:
                self.exits[_how(process)] += 1
                self._members[number] = self._start(number)

    @property
    def running_count(self) -> int:
        return sum(process.poll() is None for process in [*self._members, *self._suspended])

    def stop(self) -> None:
        """Lets everybody finish; whoever is wedged is an error."""
        self.resume_all()
        everyone = [*self._members, *self._suspended]
        for process in everyone:
            process.terminate()
        for process in everyone:
            process.wait(STOP_SECONDS_MAX)
        self._suspended.clear()

    def discard(self) -> None:
        for process in [*self._members, *self._suspended]:
            process.kill()
            process.wait()


def end_with_parent() -> None:
    """For the processes themselves: a test that was killed leaves none of them behind."""

    def wait_for_end() -> None:
        sys.stdin.read()
        os._exit(1)

    threading.Thread(target=wait_for_end, name="wait for parent", daemon=True).start()


def _how(process: subprocess.Popen[bytes]) -> str:
    code = process.returncode
    return signal.Signals(-code).name if code < 0 else f"exit {code}"
