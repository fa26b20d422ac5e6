"""What chaos does to a broker process, and what may be asked of it afterwards."""

import contextlib
import os
import random
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ottla.testing import Broker, BrokerFailed

LOOPBACK: Final = "127.0.0.1"
_PORTS: Final = range(20_000, 30_000)  # Below Linux's ephemeral ports (32768 on).
_ESTABLISHED: Final = "01"  # As /proc/net/tcp writes it.
TROUBLE: Final = ("Traceback", "request failed", "a bug of Ottla's", "CRITICAL", "never retrieved")


def outside_ephemeral_ports(chance: random.Random) -> int:
    """A port to start a killed broker on again: no client's own end of a connection can take it meanwhile."""
    while True:
        port = chance.choice(_PORTS)
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((LOOPBACK, port))
            return port


def kill_while_starting(broker: Broker, after_seconds: float) -> bool:
    """Starts the broker and kills it `after_seconds`; whether that came before it was ready."""
    timer = threading.Timer(after_seconds, _kill_quietly, [broker])
    timer.start()
    try:
        broker.start()
        return False
    except BrokerFailed:
        return True
    finally:
        timer.join()
        broker.kill()


def _kill_quietly(broker: Broker) -> None:
    with contextlib.suppress(BrokerFailed, ProcessLookupError):
        os.kill(broker.pid, signal.SIGKILL)


def connection_count(broker: Broker) -> int:
    """Established ones, as the kernel counts them on the broker's side."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(f":{broker.port:04X}") and row[3] == _ESTABLISHED for row in rows)


def open_file_count(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def require_untroubled(broker: Broker) -> None:
    """No bug showed itself in the broker's log."""
    log = broker.log
    found = [word for word in TROUBLE if word in log]
    assert not found, f"{found} in the broker's log:\n{excerpt(log, found[0])}"


def excerpt(log: str, word: str, *, before: int = 5, after: int = 40) -> str:
    lines = log.splitlines()
    at = next(number for number, line in enumerate(lines) if word in line)
    return "\n".join(lines[max(at - before, 0) : at + after])


def wait_until(condition: Callable[[], bool], what: str, *, seconds: float = 20.0) -> None:
    """Polls `condition` until it is true: the world outside tells nobody when it changes."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)
