"""`ottla log dump` on directories as a broker leaves them."""

import json
import struct
from pathlib import Path

import pytest

from ottla.wire.records import BatchBuilder
from tests.unit.cli.conftest import Run

NAME = "00000000000000000005"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    builder = BatchBuilder(base_offset=5)
    builder.append(1_700_000_000_000, b"key", b"value")
    directory = tmp_path / "orders-0"
    directory.mkdir()
    (directory / f"{NAME}.log").write_bytes(builder.build())
    (directory / f"{NAME}.index").write_bytes(struct.pack(">2i", 1, 100))
    (directory / f"{NAME}.timeindex").write_bytes(b"")
    (directory / "leader-epoch-checkpoint").write_bytes(b"0\n1\n0 5\n")
    (directory / "partition.metadata").write_bytes(b"version: 0\ntopic_id: SYCt9CVRR42LJCFiyYQYFw\n")
    (directory / "notes.txt").write_bytes(b"mine")
    return directory


def test_a_partition_directory_shows_each_file_that_a_broker_writes(run: Run, partition: Path) -> None:
    result = run("log", "dump", str(partition), "--json")
    assert result.exit_code == 0
    kinds = {Path(document["file"]).name: document["kind"] for document in json.loads(result.stdout)}
    assert kinds == {
        f"{NAME}.index": "offset index",
        f"{NAME}.log": "segment",
        f"{NAME}.timeindex": "time index",
        "leader-epoch-checkpoint": "checkpoint",
        "partition.metadata": "properties",
    }


def test_a_table_fits_a_terminal_of_100_columns(run: Run, partition: Path) -> None:
    result = run("log", "dump", str(partition / f"{NAME}.log"))
    lines = [line for line in result.stdout.splitlines() if not line.startswith(str(partition))]
    assert max(map(len, lines)) <= 100
    assert "5 – 5" in result.stdout
    assert "ok" in result.stdout


def test_records_instead_of_batches(run: Run, partition: Path) -> None:
    result = run("log", "dump", str(partition / f"{NAME}.log"), "--records", "--json")
    [document] = json.loads(result.stdout)
    assert document["entries"] == [
        {"offset": 5, "timestamp": 1_700_000_000_000, "key": "key", "value": "value", "headers": None}
    ]


def test_a_log_directory_lists_its_partitions(run: Run, partition: Path) -> None:
    result = run("log", "dump", str(partition.parent), "--json")
    [document] = json.loads(result.stdout)
    assert document["kind"] == "log directory"
    size_bytes = (partition / f"{NAME}.log").stat().st_size
    assert document["entries"] == [{"partition": "orders-0", "segments": 1, "first_offset": 5, "size": size_bytes}]


def test_damage_is_shown_and_fails_the_command(run: Run, partition: Path) -> None:
    segment = partition / f"{NAME}.log"
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    segment.write_bytes(data)
    result = run("log", "dump", str(segment))
    assert result.exit_code == 1
    assert "WRONG" in result.stdout
    assert f"damaged: {segment}" in result.stderr


def test_rows_beyond_the_count_are_counted(run: Run, tmp_path: Path) -> None:
    index = tmp_path / f"{NAME}.index"
    index.write_bytes(b"".join(struct.pack(">2i", number, number * 10) for number in range(1, 11)))
    shown = run("log", "dump", str(index), "--count", "3").stdout
    assert "7 more rows" in shown
    assert "more rows" not in run("log", "dump", str(index), "--count", "0").stdout


@pytest.mark.parametrize("name", ["what.txt", "broker.index"])
def test_a_file_that_no_broker_writes_is_refused(run: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    result = run("log", "dump", str(tmp_path / name))
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")


def test_a_directory_without_a_brokers_files_is_refused(run: Run, tmp_path: Path) -> None:
    result = run("log", "dump", str(tmp_path))
    assert result.exit_code == 1
    assert "name a partition directory" in result.stderr


def test_a_missing_path_is_a_usage_error(run: Run, tmp_path: Path) -> None:
    assert run("log", "dump", str(tmp_path / "nothing")).exit_code == 2
