"""The state directory: statuses, requests to stop, locks."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.spark.pipelines.status_files import (
    AlreadyRunning,
    State,
    StateDirectory,
    Status,
    default_directory,
    locked,
)


def status(name: str = "p", **fields: object) -> Status:
    known = Status(
        name=name,
        state=State.RUNNING,
        pid=os.getpid(),
        file="p.yaml",
        guarantee="exactly-once",
        checkpoint="/c",
        started_s=time.time(),
        updated_s=time.time(),
    )
    return replace(known, **fields)  # type: ignore[arg-type]


def dead_pid() -> int:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


def test_a_status_is_read_as_it_was_written(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path / "state")
    written = status(lag=5, batch=3, reason="broken")
    directory.write(status("q"))
    directory.write(status())
    directory.write(written)
    assert directory.status("p") == written
    assert [each.name for each in directory.statuses()] == ["p", "q"]
    assert sorted(file.name for file in directory.path.iterdir()) == ["p.json", "q.json"]


def test_where_nothing_was_written_there_is_nothing(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path / "none")
    assert directory.statuses() == []
    assert directory.status("p") is None


def test_a_pipeline_whose_process_ended_without_a_word_is_gone() -> None:
    pid = dead_pid()
    assert status(pid=pid).is_gone
    assert not status().is_gone
    assert not status(pid=pid, state=State.STOPPED).is_gone


def test_a_request_to_stop_is_taken_once(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path)
    assert directory.take_stop("p") == 0
    directory.ask_to_stop("p")
    assert (directory.take_stop("p"), directory.take_stop("p")) == (1, 0)
    directory.ask_to_stop("p", at_once=True)
    assert directory.take_stop("p") == 2


def test_a_checkpoint_has_one_owner_as_long_as_that_lives(tmp_path: Path) -> None:
    with locked(tmp_path / "c", "p"), pytest.raises(AlreadyRunning, match="ottla pipeline stop p"):
        locked(tmp_path / "c", "p").__enter__()
    with locked(tmp_path / "c", "p"):
        pass


def test_the_directory_is_where_the_desktop_keeps_state() -> None:
    home = Path("/home/me")
    assert default_directory({}, home) == home / ".ottla/pipelines"
    assert default_directory({"XDG_STATE_HOME": "/state"}, home) == Path("/state/ottla/pipelines")
