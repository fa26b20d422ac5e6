"""`ottla produce` against librdkafka's mock broker."""

import json
from pathlib import Path

import pytest

from ottla.cli.connection import Connection
from ottla.cli.reading import OffsetRange, read
from ottla.cli.record_format import ConsumedRecord
from tests.unit.cli.conftest import Run


def stored(servers: str, topic: str, partitions: list[dict[str, int]]) -> list[ConsumedRecord]:
    ranges = [OffsetRange(partition=each["partition"], start=0, end=each["last"] + 1) for each in partitions]
    return list(read(Connection(servers=servers), topic, ranges, follow=False))


def test_each_line_of_standard_input_is_a_record(run: Run, mock_cluster: str) -> None:
    result = run("produce", "lines", "-b", mock_cluster, "-p", "1", input=b"one\r\n\n\xff\nlast")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("4 records, 8 B, to lines in ")
    records = stored(mock_cluster, "lines", [{"partition": 1, "last": 3}])
    assert [record.value for record in records] == [b"one", b"", b"\xff", b"last"]


def test_files_are_read_one_after_another_up_to_the_count(run: Run, mock_cluster: str, tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text("k1\tv1\nk2\tv2\n")
    second.write_text("k3\tv3\nk4\tv4\n")
    options = ["--key-separator", r"\t", "-H", "trace=7", "-n", "3", "-p", "0", "-z", "zstd", "-b", mock_cluster]
    assert run("produce", "files", str(first), str(second), *options).exit_code == 0
    records = stored(mock_cluster, "files", [{"partition": 0, "last": 2}])
    assert [(record.key, record.value) for record in records] == [(b"k1", b"v1"), (b"k2", b"v2"), (b"k3", b"v3")]
    assert records[0].headers == [("trace", b"7")]


def test_json_lines_carry_everything_and_the_summary_is_json(run: Run, mock_cluster: str) -> None:
    line = '{"key": "k", "value": {"n": 1}, "headers": {"h": null}, "partition": 2, "timestamp": 1700000000000}'
    result = run("produce", "json", "--json", "-b", mock_cluster, input=line)
    summary = json.loads(result.stdout)
    assert (summary["topic"], summary["records"], summary["bytes"], summary["failed"]) == ("json", 1, 7, 0)
    assert summary["partitions"] == [{"partition": 2, "records": 1, "first": 0, "last": 0}]
    assert stored(mock_cluster, "json", summary["partitions"]) == [
        ConsumedRecord("json", 2, 0, 1_700_000_000_000, b"k", b'{"n":1}', [("h", None)])
    ]


def test_a_key_lands_where_the_java_client_puts_it(run: Run, mock_cluster: str) -> None:
    """Kafka's murmur2 of "21" is -973932308, of "foobar" -790332482, of "abc" 479470107: without the sign, modulo 4."""
    places = {}
    for key in ("21", "foobar", "abc"):
        line = json.dumps({"key": key, "value": "v"})
        [partition] = json.loads(run("produce", "keys", "--json", "-b", mock_cluster, input=line).stdout)["partitions"]
        places[key] = partition["partition"]
    assert places == {"21": 0, "foobar": 2, "abc": 3}


def test_a_line_that_cannot_be_read_is_named_and_those_before_it_are_sent(run: Run, mock_cluster: str) -> None:
    result = run("produce", "broken", "-k", ":", "-b", mock_cluster, input="a:1\nnothing\nb:2\n")
    assert result.exit_code == 1
    assert "error: standard input, line 2: no key separator ':'" in result.stderr
    assert "1 record, 1 B, to broken" in result.stderr


def test_a_partition_that_does_not_exist_is_refused(run: Run, mock_cluster: str) -> None:
    result = run("produce", "few", "-p", "99", "-b", mock_cluster, input="x\n")
    assert result.exit_code == 1
    assert "_UNKNOWN_PARTITION" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "options",
    [
        ["--rate", "fast"],
        ["--acks", "2"],
        ["--compression", "rar"],
        ["--header", "x"],
        ["--count", "0"],
        ["-X", "y"],
        ["--json", "-k", ":"],
        ["-p", "3000000000"],
        ["-n", "99999999999999999999"],
        ["-H", "h=\udcff"],  # As Python hands over an argument that is not UTF-8.
    ],
)
def test_wrong_options_are_usage_errors(run: Run, mock_cluster: str, options: list[str]) -> None:
    assert run("produce", "t", *options, "-b", mock_cluster, input="x\n").exit_code == 2


def test_a_header_name_that_is_no_text_is_told_with_its_line(run: Run, mock_cluster: str) -> None:
    line = '{"value": "x", "headers": {"\\ud800": "1"}}'
    result = run("produce", "headers", "--json", "-b", mock_cluster, input=line)
    assert result.exit_code == 1
    assert "error: standard input, line 1: the header name '\\ud800'" in result.stderr
