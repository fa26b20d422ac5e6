"""The state directory: what runs here and how it does, for `ottla pipeline status` and `stop` in another terminal.

`NAME.json` is the status of a pipeline, written whole or not at all, and left behind with how it ended. `NAME.stop` asks
it to stop. `NAME.failure.txt` has all that is known of its last failure. `NAME/` is its checkpoint, where its file does
not say another. A lock in the checkpoint keeps a second driver away from it: both would write the same micro-batches.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from ottla.spark.pipelines.definition import Pipeline

LOCK_NAME: Final = "lock"


class State(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FINISHED = "finished"
    FAILED = "failed"

    @property
    def is_over(self) -> bool:
        return self in (State.STOPPED, State.FINISHED, State.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What one pipeline is doing."""

    name: str
    state: State
    pid: int
    file: str
    guarantee: str
    checkpoint: str
    started_s: float
    updated_s: float
    batch: int | None = None
    rows_per_second: float = 0.0
    rows_total: int = 0
    lag: int | None = None
    batch_ms: int | None = None
    restarts: int = 0
    reason: str | None = None
    """Of the last failure."""

    @property
    def is_gone(self) -> bool:
        """Says that it runs, but its process has ended without a word."""
        return not self.state.is_over and not _is_alive(self.pid)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class AlreadyRunning(Exception):
    """Another process has the checkpoint."""


def default_directory(environment: Mapping[str, str], home: Path) -> Path:
    state_home = environment.get("XDG_STATE_HOME")
    return Path(state_home) / "ottla" / "pipelines" if state_home else home / ".ottla" / "pipelines"


class StateDirectory:
    def __init__(self, path: Path) -> None:
        self.path = path

    def checkpoint_of(self, pipeline: Pipeline) -> Path:
        return pipeline.checkpoint or (self.path / pipeline.name).absolute()

    def failure_file(self, name: str) -> Path:
        return self.path / f"{name}.failure.txt"

    @property
    def spark_log(self) -> Path:
        """Of all runs here."""
        return self.path / "spark.log"

    # -- status ------------------------------------------------------------------------------------------------------

    def write(self, status: Status) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        file = self._status_file(status.name)
        whole = file.with_name(f"{file.name}.{os.getpid()}")
        whole.write_text(json.dumps(asdict(status), indent=2) + "\n")
        whole.replace(file)

    def write_failure(self, name: str, details: str) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        self.failure_file(name).write_text(details)

    def status(self, name: str) -> Status | None:
        try:
            fields = json.loads(self._status_file(name).read_text())
        except FileNotFoundError:
            return None
        return Status(**{**fields, "state": State(fields["state"])})

    def statuses(self) -> list[Status]:
        names = sorted(file.stem for file in self.path.glob("*.json"))
        return [status for name in names if (status := self.status(name)) is not None]

    def _status_file(self, name: str) -> Path:
        return self.path / f"{name}.json"

    # -- stopping ----------------------------------------------------------------------------------------------------

    def ask_to_stop(self, name: str, *, at_once: bool = False) -> None:
        self._stop_file(name).write_text("at once" if at_once else "")

    def take_stop(self, name: str) -> int:
        """How often somebody has asked since the last look; who wants it at once has asked twice."""
        try:
            text = self._stop_file(name).read_text()
            self._stop_file(name).unlink()
        except FileNotFoundError:
            return 0
        return 2 if text else 1

    def _stop_file(self, name: str) -> Path:
        return self.path / f"{name}.stop"


@contextmanager
def locked(checkpoint: Path, name: str) -> Iterator[None]:
    """The lock ends with the process, however that ends."""
    checkpoint.mkdir(parents=True, exist_ok=True)
    with (checkpoint / LOCK_NAME).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning(
                f"{name} runs already, with the checkpoint {checkpoint}: `ottla pipeline stop {name}` ends it"
            ) from None
        yield
