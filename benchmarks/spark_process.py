"""A Spark driver in a process of its own: a job in, its figures out, and the most memory it had with all its children."""

import json
import subprocess
import threading
from pathlib import Path
from typing import Any, Final, Self

from benchmarks.peers import PeerError
from benchmarks.processes import die_with_parent, tree_memory_bytes

CONNECTOR: Final = Path(__file__).resolve().parent.parent / ".tools" / "spark-connector"
DRIVER: Final = Path(__file__).with_name("spark_driver.py")
SAMPLE_SECONDS: Final = 1.0
"""A sample of a driver with its workers takes up to 60 ms of CPU, and more the more processes there are."""
STOP_SECONDS_MAX: Final = 30.0


class SparkProcess:
    """`with SparkProcess({"name": "copy", …}) as driver: driver.result()`."""

    def __init__(self, job: dict[str, Any]) -> None:
        python, jars = CONNECTOR / "venv" / "bin" / "python", sorted((CONNECTOR / "jars").glob("*.jar"))
        if not python.exists() or not jars:
            raise PeerError(f"no Spark connector in {CONNECTOR}: `make bench-spark` installs it")
        argument = json.dumps({**job, "jars": ",".join(map(str, jars))})
        self._process = subprocess.Popen(
            [python, DRIVER, argument],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent,
        )
        self._errors: list[str] = []
        self._error_reader = threading.Thread(target=self._read_errors, daemon=True)
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._over = threading.Event()
        self.memory_bytes_max = 0

    def __enter__(self) -> Self:
        self._error_reader.start()
        self._sampler.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        try:
            self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._process.wait()

    def wait_ready(self) -> None:
        self._next_line()

    def result(self) -> dict[str, float]:
        """Closes its standard input, which ends a job that would go on for ever."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._next_line()

    def _next_line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._error_reader.join()
            raise PeerError("the Spark driver ended:\n" + "".join(self._errors[-40:]))
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        self._errors.extend(self._process.stderr)

    def _sample(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            self.memory_bytes_max = max(self.memory_bytes_max, tree_memory_bytes(self._process.pid))
