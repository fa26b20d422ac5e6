"""Broker processes that cannot outlive the benchmark, and what /proc says they cost.

Each child asks the kernel to be killed with its parent, so that Ctrl-C, a crash and even SIGKILL of the benchmark leave
nothing behind. Linux only, as the whole benchmark is.
"""

import ctypes
import os
import resource
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

STOP_SECONDS_MAX: Final = 120.0  # A broker with ten thousand partitions closes every log before it exits.

_PR_SET_PDEATHSIG: Final = 1
_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_libc: Final = ctypes.CDLL(None)


class BrokerProcess:
    """A running broker: its process and the children it may have."""

    def __init__(self, command: Sequence[str], *, output: Path, environment: Mapping[str, str] | None = None) -> None:
        self._output = output
        with output.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                preexec_fn=die_with_parent,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_running(self) -> bool:
        return self._process.poll() is None

    def output_tail(self) -> str:
        return self._output.read_text(errors="replace")[-2000:]

    def cpu_seconds(self) -> float:
        """User and system time of the process tree so far."""
        return sum(map(_cpu_seconds, _tree(self.pid)))

    def resident_bytes(self) -> int:
        return sum(map(_resident_bytes, _tree(self.pid)))

    def disk_read_bytes(self) -> int:
        """What it read so far and was not in the page cache."""
        return sum(map(_disk_read_bytes, _tree(self.pid)))

    def stop(self) -> None:
        """Asks with SIGTERM, insists with SIGKILL."""
        if self.is_running():
            self._process.terminate()
            try:
                self._process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        for pid in list(_tree(self.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()


def die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))  # Ten thousand partitions are as many files.


def tree_memory_bytes(pid: int) -> int:
    """What a process and all its children hold together: a page that several share counts once."""
    return sum(map(_proportional_bytes, _tree(pid)))


def _tree(pid: int) -> Iterator[int]:
    yield pid
    with suppress(FileNotFoundError, ProcessLookupError):
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            with suppress(FileNotFoundError, ProcessLookupError):
                for child in children.read_text().split():
                    yield from _tree(int(child))


def _cpu_seconds(pid: int) -> float:
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    user_ticks, system_ticks = int(after_name[11]), int(after_name[12])
    return (user_ticks + system_ticks) / _TICKS_PER_SECOND


def _resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _proportional_bytes(pid: int) -> int:
    with suppress(FileNotFoundError, ProcessLookupError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def _disk_read_bytes(pid: int) -> int:
    with suppress(FileNotFoundError, ProcessLookupError):
        for line in Path(f"/proc/{pid}/io").read_text().splitlines():
            if line.startswith("read_bytes: "):
                return int(line.split()[1])
    return 0
