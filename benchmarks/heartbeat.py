"""Finds a broker's stalls from outside: one ApiVersions a millisecond on a connection of its own.

It runs as a process of its own (`python -m benchmarks.heartbeat PORT SECONDS`), at a higher priority where it may, and
prints its findings as JSON. A beat that had to wait for the answer before it is timed from when it was due, so that a
stall of 50 ms counts as the fifty late beats it caused, not as one. Our own late wake-ups are not the broker's: they
are left out, and told beside it as a measure of the machine's noise.
"""

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from typing import Final

from benchmarks.percentiles import percentile
from benchmarks.probe import API_VERSIONS_REQUEST, connect, receive_frame

BEAT_NANOSECONDS: Final = 1_000_000


class Heartbeat:
    """The process, from the side of whoever wants to know: start it, work, then `result()`."""

    def __init__(self, port: int, *, seconds: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.heartbeat", str(port), str(seconds)], stdout=subprocess.PIPE, text=True
        )

    def is_beating(self) -> bool:
        return self._process.poll() is None

    def result(self) -> dict[str, float]:
        """Milliseconds by percentile, once the time is over."""
        output, _ = self._process.communicate()
        if self._process.returncode != 0:
            raise ConnectionError("the heartbeat lost its broker")
        latencies: dict[str, float] = json.loads(output)
        return latencies

    def stop(self) -> None:
        if self.is_beating():
            self._process.kill()
            self._process.wait()


def beat(port: int, seconds: int) -> tuple[list[float], list[float]]:
    """Waits for the broker, and how late we woke ourselves, both in milliseconds."""
    latencies_ms: list[float] = []
    own_delays_ms: list[float] = []
    with connect(port) as connection:
        started = time.perf_counter_ns()
        for number in range(seconds * 1000):
            due = timed_from = started + number * BEAT_NANOSECONDS
            ahead = due - time.perf_counter_ns()
            if ahead > 0:
                time.sleep(ahead / 1e9)
                timed_from = time.perf_counter_ns()
                own_delays_ms.append((timed_from - due) / 1e6)
            connection.sendall(API_VERSIONS_REQUEST)
            receive_frame(connection)
            latencies_ms.append((time.perf_counter_ns() - timed_from) / 1e6)
    return latencies_ms, own_delays_ms


def main() -> None:
    with suppress(PermissionError):
        os.nice(-10)  # Waiting for a core of our own would look like the broker's stall.
    latencies_ms, own_delays_ms = beat(int(sys.argv[1]), int(sys.argv[2]))
    shares = {"p50": 50, "p99": 99, "p99.9": 99.9, "max": 100}
    findings = {name: percentile(latencies_ms, share) for name, share in shares.items()}
    noise_ms = percentile(own_delays_ms, 99.9) if own_delays_ms else 0.0  # Without a beat in time, nobody slept.
    print(json.dumps({**findings, "noise": noise_ms}))


if __name__ == "__main__":
    main()
