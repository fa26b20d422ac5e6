"""Starts an attack (attacks.py) in a process of its own, so that it costs the well-behaved clients no interpreter time."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

REPOSITORY: Final = Path(__file__).parents[2]
STOP_SECONDS_MAX: Final = 60.0


class Attacker:
    def __init__(self, name: str, port: int, seed: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.attacks", name, str(port), str(seed)],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_ready(self) -> None:
        """For attacks that say when they have built themselves up."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line == "ready\n", line + self._errors()

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> dict[str, Any]:
        """Ends the attack; what it did."""
        output, errors = self._process.communicate(timeout=STOP_SECONDS_MAX)
        assert self._process.returncode == 0, errors
        outcome: dict[str, Any] = json.loads(output.splitlines()[-1])
        return outcome

    def _errors(self) -> str:
        assert self._process.stderr is not None
        self._process.kill()
        return self._process.stderr.read()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


@contextlib.contextmanager
def attacking(name: str, port: int, seed: int) -> Iterator[Attacker]:
    attacker = Attacker(name, port, seed)
    try:
        yield attacker
    finally:
        attacker.kill()
