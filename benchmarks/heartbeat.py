"""Finds a broker's stalls from outside: one ApiVersions a millisecond on a connection of its own.

It runs as a process of its own (`python -m benchmarks.heartbeat PORT SECONDS`), at a higher priority where it may, and
prints its findings as JSON. Every beat is sent when it is due, whether or not the one before was answered, and timed
from then: a stall of 50 ms counts as the fifty late beats it caused. Our own late wake-ups are not the broker's: a beat
that we sent late is timed from its sending.

What the machine itself keeps waiting (a core for which others queue, a host that takes it away) is no broker's stall
either, and nobody could tell them apart in one series. So the same beats go to a server that only echoes: its waits are
the floor that no broker can be below.
"""

import json
import os
import selectors
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from benchmarks.percentiles import percentile
from benchmarks.probe import API_VERSIONS_REQUEST, SIZE, connect

BEAT_NANOSECONDS: Final = 1_000_000
_SHARES: Final = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9, "max": 100.0}
_PATIENCE_NANOSECONDS: Final = 10_000_000_000  # For the last answers.


class Heartbeat:
    """The process, from the side of whoever wants to know: start it, work, then `result()`."""

    def __init__(self, port: int, *, seconds: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.heartbeat", str(port), str(seconds)], stdout=subprocess.PIPE, text=True
        )

    def result(self) -> dict[str, float]:
        """Milliseconds by percentile, once the time is over."""
        output, _ = self._process.communicate()
        if self._process.returncode != 0:
            raise ConnectionError("the heartbeat lost its broker")
        latencies: dict[str, float] = json.loads(output)
        return latencies

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


class _Pulse:
    """One connection: beats on their way and how long those that came back took."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.waits_ms: list[float] = []
        self._sent: deque[int] = deque()
        self._received = bytearray()

    @property
    def is_waiting(self) -> bool:
        return bool(self._sent)

    def send(self) -> None:
        self._sent.append(time.perf_counter_ns())
        self.connection.sendall(API_VERSIONS_REQUEST)

    def receive(self) -> None:
        data = self.connection.recv(1 << 16)
        now = time.perf_counter_ns()
        if not data:
            raise ConnectionError("the broker closed the connection")
        self._received += data
        while len(self._received) >= SIZE.size:
            end = SIZE.size + SIZE.unpack_from(self._received)[0]
            if len(self._received) < end:
                return
            del self._received[:end]
            self.waits_ms.append((now - self._sent.popleft()) / 1e6)


def beat(pulses: Sequence[_Pulse], seconds: int) -> None:
    with selectors.DefaultSelector() as selector:
        for pulse in pulses:
            selector.register(pulse.connection, selectors.EVENT_READ, pulse)
        started = time.perf_counter_ns()
        sent, beats = 0, seconds * 1000
        while sent < beats or any(pulse.is_waiting for pulse in pulses):
            now = time.perf_counter_ns()
            while sent < beats and started + sent * BEAT_NANOSECONDS <= now:
                for pulse in pulses:
                    pulse.send()
                sent += 1
            due = started + sent * BEAT_NANOSECONDS if sent < beats else now + BEAT_NANOSECONDS
            if now > started + beats * BEAT_NANOSECONDS + _PATIENCE_NANOSECONDS:
                raise ConnectionError("beats were never answered")
            for key, _ in selector.select(max(0, due - time.perf_counter_ns()) / 1e9):
                key.data.receive()


def _serve_echo(listener: socket.socket) -> None:
    """The least a server can do: one answer of four bytes for every request."""
    connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while data := connection.recv(1 << 16):
        connection.sendall(SIZE.pack(0) * (len(data) // len(API_VERSIONS_REQUEST)))


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    if os.fork() == 0:
        _serve_echo(listener)
        os._exit(0)
    with suppress(PermissionError):
        os.nice(-10)  # Waiting for a core of our own would look like the broker's stall.
    broker, echo = (_Pulse(connect(port)) for port in (int(sys.argv[1]), listener.getsockname()[1]))
    beat([broker, echo], int(sys.argv[2]))
    findings = {name: percentile(broker.waits_ms, share) for name, share in _SHARES.items()}
    print(json.dumps({**findings, "floor": percentile(echo.waits_ms, 99.9)}))


if __name__ == "__main__":
    main()
