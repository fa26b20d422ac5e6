"""The arguments of `ottla up` and `ottla serve`: what cannot be is refused before anything starts."""

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.server.main import USAGE_ERROR, main


@pytest.mark.parametrize(
    ("port", "told"),
    [
        ("70000", "70000 is no port: 0 to 65535"),
        ("-1", "-1 is no port: 0 to 65535"),
        ("kafka", "kafka is no port: 0 to 65535"),
    ],
)
def test_a_port_that_is_none_is_refused_with_the_range(
    port: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["up", f"--port={port}"])
    assert ended.value.code == USAGE_ERROR
    assert told in capsys.readouterr().err


def test_a_setting_without_a_value_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--config", "num.partitions"]) == USAGE_ERROR
    assert "name=value" in capsys.readouterr().err


def refusal_of(*arguments: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", "ottla.server", "up", "--port=0", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == USAGE_ERROR
    return ended.stderr


def test_a_host_that_does_not_resolve_is_told_as_such(tmp_path: Path) -> None:
    told = refusal_of("--host=no-such-host.invalid", f"--data={tmp_path}")
    assert "no-such-host.invalid does not resolve to an address of this machine" in told
    assert "--port" not in told


def test_data_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.touch()
    assert f"ottla: {file} is a file: name a directory for the data" in refusal_of(f"--data={file}")


def test_a_directory_that_cannot_be_made_is_told_with_the_reason() -> None:
    told = refusal_of("--data=/proc/no-such-directory")
    assert "ottla: cannot make the directory /proc/no-such-directory: No such file or directory" in told
