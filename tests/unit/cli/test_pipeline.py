"""`ottla pipeline`, as far as it goes without Spark: files, statuses, requests to stop."""

import io
import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from rich.live import Live

from ottla.cli.pipeline_view import Lines, LiveTable
from ottla.spark.pipelines.status_files import State, StateDirectory, Status
from tests.unit.cli.conftest import Run

RIGHT = "name: orders\nsource: {topic: orders}\nsink: {type: parquet, path: /lake}\n"
COMMANDS = ["run", "validate", "list", "status", "stop", "explain"]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateDirectory:
    monkeypatch.setenv("OTTLA_PIPELINE_STATE", str(tmp_path / "state"))
    return StateDirectory(tmp_path / "state")


def written(tmp_path: Path, text: str) -> str:
    file = tmp_path / "orders.yaml"
    file.write_text(text)
    return str(file)


def status(**fields: object) -> Status:
    known = Status(
        name="orders",
        state=State.RUNNING,
        pid=os.getpid(),
        file="orders.yaml",
        guarantee="exactly-once",
        checkpoint="/c",
        started_s=time.time(),
        updated_s=time.time(),
        batch=7,
        rows_per_second=1234.5,
        rows_total=56_789,
        lag=3,
        batch_ms=420,
    )
    return replace(known, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples_and_fits_100_columns(run: Run, command: str) -> None:
    result = run("pipeline", command, "--help")
    assert result.exit_code == 0
    assert "Examples" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_a_right_file_is_right(run: Run, tmp_path: Path) -> None:
    result = run("pipeline", "validate", written(tmp_path, RIGHT))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("✓ orders: ")


def test_each_problem_is_a_line_with_its_place_and_the_exit_code_is_2(run: Run, tmp_path: Path) -> None:
    file = written(tmp_path, RIGHT + "sinc: {}\ntrigger: {interval: soon}\n")
    for command in ("validate", "run", "explain"):
        result = run("pipeline", command, file)
        assert (result.exit_code, result.stdout) == (2, "")
        first, second = result.stderr.splitlines()
        assert first.startswith(f"error: {file}:4:1: unknown key sinc (did you mean sink?)")
        assert second.startswith(f"error: {file}:5:11: interval: ")


def test_problems_for_scripts(run: Run, tmp_path: Path) -> None:
    file = written(tmp_path, RIGHT + "checkpoint: 5\n")
    result = run("pipeline", "validate", file, "--json")
    assert result.exit_code == 2
    [problem] = json.loads(result.stdout)
    assert (problem["file"], problem["line"], problem["column"]) == (file, 4, 1)
    assert problem["message"].startswith("checkpoint: a text is needed")


def test_a_pipeline_is_explained_without_its_secrets(run: Run, tmp_path: Path, directory: StateDirectory) -> None:
    text = RIGHT + "transform: [SELECT 1 FROM input]\nkafka: {security.protocol: SASL_SSL, sasl.mechanism: PLAIN, "
    text += "sasl.username: me, sasl.password: hush}\n"
    [told] = json.loads(run("pipeline", "explain", written(tmp_path, text), "--json").stdout)
    assert told["source"] == "topic (topic=orders, read=stream)"
    assert told["step 1"] == "SELECT 1 FROM input"
    assert told["sink"] == "parquet (path=/lake, compression=zstd)"
    assert told["guarantee"].startswith("exactly-once: files count once _spark_metadata lists them")
    assert told["checkpoint"].startswith(f"{directory.path}/orders: ")
    assert told["brokers"].endswith("kafka.sasl.username=me, kafka.sasl.password=…)")
    assert "hush" not in run("pipeline", "explain", written(tmp_path, text)).stdout


def test_an_empty_state_directory_says_what_to_type(run: Run, directory: StateDirectory) -> None:
    for command in ("list", "status"):
        result = run("pipeline", command)
        assert (result.exit_code, result.stdout) == (0, "")
        assert "`ottla pipeline run FILE` starts one" in result.stderr


def test_statuses_for_people_and_for_scripts(run: Run, directory: StateDirectory) -> None:
    directory.write(status())
    directory.write(status(name="late", state=State.FAILED, reason="no such table"))
    shown = run("pipeline", "status").stdout
    assert "1,234" in shown and "56,789" in shown and "0.4 s" in shown
    assert "exactly-once" in run("pipeline", "list").stdout
    assert "no such table" in run("pipeline", "status", "late").stdout
    first, second = json.loads(run("pipeline", "status", "--json").stdout)
    assert (first["name"], first["state"], first["lag"]) == ("late", "failed", 3)
    assert (second["name"], second["state"]) == ("orders", "running")


def test_a_pipeline_whose_process_has_ended_is_gone(run: Run, directory: StateDirectory) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    directory.write(status(pid=ended.pid))
    assert f"gone (process {ended.pid} has ended)" in run("pipeline", "status").stdout
    result = run("pipeline", "stop", "orders")
    assert (result.exit_code, result.stderr) == (1, "error: orders does not run: it is gone\n")


def test_stop_asks_and_waits_until_it_has_stopped(run: Run, directory: StateDirectory) -> None:
    directory.write(status())

    def runner() -> None:
        while not directory.take_stop("orders"):
            time.sleep(0.01)
        directory.write(status(state=State.STOPPED))

    thread = threading.Thread(target=runner)
    thread.start()
    result = run("pipeline", "stop", "orders")
    thread.join()
    assert (result.exit_code, result.stdout) == (0, "✓ orders: stopped\n")


def test_stop_says_when_a_batch_takes_too_long(run: Run, directory: StateDirectory) -> None:
    directory.write(status())
    result = run("pipeline", "stop", "orders", "--now", "--timeout", "0")
    assert result.exit_code == 1
    assert "--now does not wait for it" in result.stderr
    assert directory.take_stop("orders") == 2


@pytest.mark.parametrize("command", ["stop", "status"])
def test_a_name_that_is_not_there_is_told(run: Run, directory: StateDirectory, command: str) -> None:
    result = run("pipeline", command, "none")
    assert result.exit_code == 1
    assert result.stderr == "error: there is no pipeline none: `ottla pipeline list` shows what there is\n"


def test_without_a_terminal_a_line_is_told_when_something_changes(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines()
    starting = status(state=State.STARTING, batch=None)
    for each in (starting, starting, status(), status(batch=8), status(state=State.FINISHED, batch=9)):
        lines.observe([each])
    assert capsys.readouterr().err.splitlines() == [
        "orders: starting",
        "orders: running, batch 7 in 0.4 s, 56,789 rows in all, 1,234/s, lag 3",
        "orders: finished, batch 9 in 0.4 s, 56,789 rows in all, 1,234/s, lag 3",
    ]


def test_on_a_terminal_the_table_is_drawn_again_below_what_is_told() -> None:
    terminal = io.StringIO()
    console = Console(file=terminal, force_terminal=True, width=100, color_system=None)
    with Live(console=console, auto_refresh=False) as live:
        view = LiveTable(live)
        view.observe([status(batch=7)])
        view.tell("orders failed: the store is down; restart 1 of 10 in 1 s")
        view.observe([status(batch=8)])
    shown = terminal.getvalue()
    assert shown.index("the store is down") < shown.rindex("56,789")
    assert shown.count("pipeline ") >= 2
