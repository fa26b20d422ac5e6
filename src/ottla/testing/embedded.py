"""The embedded broker: a child process, its data directory, and a guardian that removes both.

The guardian is a shell that reads process ids from a pipe of ours. When the pipe closes, because we are done or because we
were killed, it kills the last process and removes the directory. It runs in a session of its own, so a signal to the
test's process group does not reach it.
"""

import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

START_SECONDS_MAX: Final = 60.0  # A machine that is busy with other things needs a while; it is a bound, not a wait.
STOP_SECONDS_MAX: Final = 15.0
HOST: Final = "127.0.0.1"
DEFAULT_NODE_ID: Final = 1
_GUARDIAN: Final = """
while read -r line; do pid=$line; done
[ "${pid:-0}" -gt 1 ] && kill -9 "$pid" 2>/dev/null && sleep 0.1
[ -n "$1" ] && rm -rf "$1"
"""


class BrokerFailed(Exception):
    """The broker did not start or is gone; the text ends with its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where a broker runs: its address there (port 0 takes a free one), and what its command is put behind."""

    host: str = HOST
    port: int = 0
    command_prefix: tuple[str, ...] = ()  # ("nsenter", "--net=…") makes a network namespace a machine of its own.


HERE: Final = Machine()


class Broker:
    """A running broker. Use `ottla.testing.broker()` to get one."""

    def __init__(
        self,
        *,
        data_dir: Path | None = None,
        machine: Machine = HERE,
        config: Mapping[str, object] | None = None,
    ) -> None:
        self._keep_data = data_dir is not None
        self._root = Path(tempfile.mkdtemp(prefix="ottla-test-"))
        self.data_dir = data_dir if data_dir is not None else self._root / "data"
        self.log_path = self._root / "broker.log"
        self.host = machine.host
        self.port = machine.port
        self._command_prefix = machine.command_prefix
        self.config = {name: str(value) for name, value in (config or {}).items()}
        self._process: subprocess.Popen[bytes] | None = None
        self._guardian = subprocess.Popen(
            ["/bin/sh", "-c", _GUARDIAN, "ottla-guardian", str(self._root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def id(self) -> int:
        return int(self.config.get("node.id", DEFAULT_NODE_ID))

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise BrokerFailed("the broker is not running: call restart()")
        return self._process.pid

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def start(self) -> None:
        """Returns once the broker answers on its port."""
        if self._process is not None:
            raise BrokerFailed(f"the broker runs already (pid {self.pid})")
        ready_read, ready_write = os.pipe()
        command = [*self._command_prefix, sys.executable, "-m", "ottla.server", "up", "--data", str(self.data_dir)]
        command += ["--host", self.host, "--port", str(self.port), "--ready-fd", str(ready_write)]
        for name, value in self.config.items():
            command += ["--config", f"{name}={value}"]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[ready_write],
                start_new_session=True,
            )
        os.close(ready_write)
        self._tell_guardian(self._process.pid)
        try:
            self.port = self._wait_ready(ready_read)
        except BaseException:
            self.kill()
            raise
        finally:
            os.close(ready_read)

    def _wait_ready(self, ready_fd: int) -> int:
        with selectors.DefaultSelector() as selector:  # Not `select`, which knows the first 1,024 descriptors alone.
            selector.register(ready_fd, selectors.EVENT_READ)
            line = os.read(ready_fd, 4096) if selector.select(START_SECONDS_MAX) else b""
        if not line:
            raise BrokerFailed(f"the broker did not start; its log:\n{self.log}")
        return int(json.loads(line)["port"])

    def kill(self) -> None:
        """SIGKILL: what a crash of the process leaves behind."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM: answers what is under way, flushes, marks a clean shutdown."""
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        """SIGSTOP: the process holds its breath; its connections stay open and nobody answers. `resume` ends it."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def restart(self) -> None:
        """Starts it again (after stopping it, if it runs) with the same port, data and node id."""
        self.stop()
        self.start()

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        process.send_signal(signal.SIGCONT)  # A paused one would not hear of it.
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise BrokerFailed(f"the broker did not stop within {STOP_SECONDS_MAX} s; its log:\n{self.log}") from None
        finally:
            self._tell_guardian(0)

    def _tell_guardian(self, pid: int) -> None:
        assert self._guardian.stdin is not None
        self._guardian.stdin.write(f"{pid}\n".encode())
        self._guardian.stdin.flush()

    def close(self) -> None:
        """Stops the broker and removes its temporary directory (a `data_dir` that was given stays)."""
        try:
            self.kill() if not self._keep_data else self.stop()
        finally:
            assert self._guardian.stdin is not None
            self._guardian.stdin.close()
            self._guardian.wait()
            shutil.rmtree(self._root, ignore_errors=True)


@contextmanager
def broker(
    *, config: Mapping[str, object] | None = None, data_dir: Path | str | None = None, port: int = 0
) -> Iterator[Broker]:
    """A broker for the length of a `with` block.

    `config` takes Kafka's broker settings ({"num.partitions": 3}); `data_dir` keeps the data there instead of in a
    temporary directory; `port` 0 takes a free one.
    """
    directory = Path(data_dir) if data_dir is not None else None
    embedded = Broker(data_dir=directory, machine=Machine(port=port), config=config)
    try:
        embedded.start()
        yield embedded
    finally:
        embedded.close()
