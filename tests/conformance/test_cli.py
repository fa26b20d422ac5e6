"""The command line as its users run it: `ottla …` in a process of its own, against the broker under test."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.commands import OTTLA, Result
from tests.conformance.under_test import BrokerUnderTest
from tests.conformance.waiting import eventually

ORDERS = "".join(f"user{number % 7}:order {number}\n" for number in range(100))

Ottla = Callable[..., Result]


@pytest.fixture
def environment(broker: BrokerUnderTest) -> dict[str, str]:
    return os.environ | {"OTTLA_BOOTSTRAP_SERVERS": broker.bootstrap, "COLUMNS": "100", "NO_COLOR": "1"}


@pytest.fixture
def run(environment: dict[str, str]) -> Ottla:
    def invoke(*arguments: str, input: str = "", exit_code: int = 0) -> Result:
        done = subprocess.run(
            [OTTLA, *arguments], input=input, env=environment, capture_output=True, text=True, timeout=90, check=False
        )
        assert done.returncode == exit_code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done

    return invoke


def json_of(done: Result) -> Any:
    return json.loads(done.stdout)


def records_of(done: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def orders(run: Ottla, topic_name: str) -> str:
    """A topic of three partitions with a hundred keyed records."""
    run("topic", "create", topic_name, "--partitions", "3")
    run("produce", topic_name, "--key-separator", ":", input=ORDERS)
    return topic_name


def test_a_topic_lives_from_create_to_delete(run: Ottla, topic_name: str) -> None:
    created = run("topic", "create", topic_name, "--partitions", "2", "--config", "retention.ms=86400000")
    assert created.stdout == f"✓ {topic_name} created: 2 partitions, replication factor 1\n"
    [described] = json_of(run("topic", "describe", topic_name, "--json"))
    assert [(each["partition"], each["start_offset"], each["end_offset"]) for each in described["partitions"]] == [
        (0, 0, 0),
        (1, 0, 0),
    ]
    assert all(each["leader"] in each["isr"] == each["replicas"] for each in described["partitions"])
    assert described["configs"] == {"retention.ms": "86400000"}
    assert run("topic", "delete", topic_name).stdout == f"✓ {topic_name} deleted\n"

    def gone() -> None:
        assert topic_name not in [each["name"] for each in json_of(run("topic", "list", "--json"))]

    eventually(gone)


def test_creating_what_exists_is_refused_unless_that_is_fine(run: Ottla, topic_name: str) -> None:
    run("topic", "create", topic_name, "--partitions", "2")
    refused = run("topic", "create", topic_name, exit_code=1)
    assert refused.stderr.startswith(f"error: creating {topic_name}: TOPIC_ALREADY_EXISTS: ")
    assert refused.stderr.count("\n") == 1
    [accepted] = json_of(run("topic", "create", topic_name, "--if-not-exists", "--json"))
    assert (accepted["created"], len(accepted["partitions"])) == (False, 2)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--config", "no.such.key=1"], "INVALID_CONFIG"),
        (["--config", "retention.ms=soon"], "INVALID_CONFIG"),
        (["--replication-factor", "99"], "INVALID_REPLICATION_FACTOR"),
    ],
)
def test_a_topic_that_cannot_be_is_refused_with_the_reason(
    run: Ottla, topic_name: str, options: list[str], error: str
) -> None:
    assert error in run("topic", "create", topic_name, *options, exit_code=1).stderr


def test_the_list_shows_partitions_records_and_size(run: Ottla, orders: str) -> None:
    [listed] = [each for each in json_of(run("topic", "list", "--json")) if each["name"] == orders]
    assert (listed["partitions"], listed["replication_factor"], listed["records"]) == (3, 1, 100)
    assert listed["size_bytes"] > 1000
    assert listed["state"] == "ok"
    assert re.search(rf"^ +{orders} +3 +1 +100 +[\d.]+ KiB +ok", run("topic", "list").stdout, re.MULTILINE)


def test_the_description_is_a_table_of_partitions(run: Ottla, orders: str) -> None:
    shown = run("topic", "describe", orders).stdout
    assert max(map(len, shown.splitlines())) <= 100
    assert len(re.findall(r"^ +[012] +\d+ +\d+ +\d+ +0 +\d+ +[\d.]+ (?:KiB|B) +ok", shown, re.MULTILINE)) == 3


def test_what_does_not_exist_is_named(run: Ottla) -> None:
    for command in (["topic", "describe"], ["topic", "delete"], ["consume"], ["bench", "--topic"]):
        failed = run(*command, "no-such-topic", exit_code=1)
        assert "UNKNOWN_TOPIC_OR_PARTITION" in failed.stderr
        assert "no-such-topic" in failed.stderr
        assert failed.stdout == ""


def test_partitions_grow_with_a_warning_and_never_shrink(run: Ottla, orders: str) -> None:
    grown = run("topic", "alter", orders, "--partitions", "5")
    assert grown.stdout == f"✓ {orders} has 5 partitions\n"
    assert "warning: keys" in grown.stderr
    assert "INVALID_PARTITIONS" in run("topic", "alter", orders, "--partitions", "2", exit_code=1).stderr


def test_configuration_is_shown_changed_and_set_back(run: Ottla, topic: str) -> None:
    def entry(name: str) -> dict[str, Any]:
        [found] = json_of(run("topic", "config", topic, name, "--json"))
        return dict(found)

    def has(name: str, value: str, source: str) -> None:
        assert (entry(name)["value"], entry(name)["source"]) == (value, source)

    assert len(json_of(run("topic", "config", topic, "--json"))) > 20
    assert entry("retention.ms")["documentation"]
    run("topic", "config", topic, "--set", "retention.ms=5000", "--append", "cleanup.policy=compact")
    eventually(lambda: has("retention.ms", "5000", "DYNAMIC_TOPIC_CONFIG"))
    eventually(lambda: has("cleanup.policy", "delete,compact", "DYNAMIC_TOPIC_CONFIG"))
    run("topic", "config", topic, "--delete", "retention.ms", "--subtract", "cleanup.policy=delete")
    eventually(lambda: has("retention.ms", "604800000", "DEFAULT_CONFIG"))
    eventually(lambda: has("cleanup.policy", "compact", "DYNAMIC_TOPIC_CONFIG"))
    assert "INVALID_CONFIG" in run("topic", "config", topic, "--set", "retention.ms=x", exit_code=1).stderr
    assert "no such configuration: x.y" in run("topic", "config", topic, "x.y", exit_code=1).stderr


def test_lines_come_back_as_they_went_in(run: Ottla, topic: str) -> None:
    lines = "one\n\nzażółć 😀\n" + "x" * 100_000 + "\n"
    run("produce", topic, "--compression", "zstd", input=lines)
    assert run("consume", topic).stdout == lines


def test_keys_decide_the_partition_and_the_summary_tells(run: Ottla, topic_name: str) -> None:
    run("topic", "create", topic_name, "--partitions", "3")
    lines = "".join(json.dumps({"key": f"user{n % 7}", "value": {"n": n}}) + "\n" for n in range(100))
    summary = json_of(run("produce", topic_name, "--json", "--header", "trace=1", input=lines))
    assert (summary["records"], summary["failed"]) == (100, 0)
    records = records_of(run("consume", topic_name, "--json"))
    assert sorted(json.loads(record["value"])["n"] for record in records) == list(range(100))
    assert all(record["headers"] == {"trace": "1"} for record in records)
    by_key = {(record["key"], record["partition"]) for record in records}
    assert len(by_key) == 7
    counts = {each["partition"]: each["records"] for each in summary["partitions"]}
    assert counts == {p: sum(1 for r in records if r["partition"] == p) for p in counts}


def test_one_topic_is_copied_to_another_through_a_pipe(run: Ottla, topic_name: str) -> None:
    source, target = f"{topic_name}-source", f"{topic_name}-target"
    run("topic", "create", source, target, "--partitions", "2")
    lines = [
        {"key": "a", "value": None, "partition": 1, "timestamp": 1_700_000_000_000},
        {"key_base64": "/w==", "value_base64": "AP8=", "partition": 0, "headers": {"h": {"base64": "/g=="}}},
        {"value": "", "partition": 0, "headers": [["twice", "1"], ["twice", None]]},
    ]
    run("produce", source, "--json", input="\n".join(map(json.dumps, lines)))
    copied = run("consume", source, "--json").stdout
    run("produce", target, "--json", input=copied)

    def without_topic(text: str) -> list[dict[str, Any]]:
        records = [{**json.loads(line), "topic": ""} for line in text.splitlines()]
        return sorted(records, key=lambda record: (record["partition"], record["offset"]))

    assert without_topic(run("consume", target, "--json").stdout) == without_topic(copied)


def test_a_record_too_large_is_refused_by_the_topics_limit(run: Ottla, topic_name: str) -> None:
    run("topic", "create", topic_name, "--config", "max.message.bytes=1000")
    failed = run("produce", topic_name, input="x" * 2000 + "\n", exit_code=1)
    assert "1 record not delivered: MESSAGE_TOO_LARGE" in failed.stderr


def test_a_steady_rate_takes_its_time(run: Ottla, topic: str) -> None:
    summary = json_of(run("produce", topic, "--json", "--rate", "50/s", "--count", "10", input='{"value": 1}\n' * 99))
    assert summary["records"] == 10
    assert summary["seconds"] >= 9 / 50


def test_reading_starts_where_it_is_told(run: Ottla, topic: str) -> None:
    moments = [1_700_000_000_000 + 1000 * number for number in range(10)]
    lines = "".join(json.dumps({"value": str(n), "timestamp": at}) + "\n" for n, at in enumerate(moments))
    run("produce", topic, "--json", input=lines)

    def values(*options: str) -> list[str]:
        return run("consume", topic, *options).stdout.splitlines()

    everything = list("0123456789")
    assert values() == values("--from", "beginning") == values("--from", "0") == everything
    assert values("--from", "7") == values("--from", "offset 7") == ["7", "8", "9"]
    assert values("--from", f"@{moments[6]}") == values("--from", f"@{moments[5] + 1}") == ["6", "7", "8", "9"]
    assert values("--from", "2023-11-14T22:13:28Z") == ["8", "9"]
    assert values("--from", "1h ago") == values("--from", "end") == values("--from", "99") == []
    assert values("--count", "2") == ["0", "1"]
    assert values("--from", "3", "--count", "2") == ["3", "4"]
    assert values("--tail", "3") == ["7", "8", "9"]
    assert values("--tail", "99") == everything


def test_reading_one_partition_and_its_forms(run: Ottla, orders: str) -> None:
    records = records_of(run("consume", orders, "--partition", "1", "--json"))
    assert {record["partition"] for record in records} == {1}
    assert [record["offset"] for record in records] == list(range(len(records)))
    [line] = run("consume", orders, "-p", "1", "--from", "0", "-n", "1", "--format", "%p:%o %k=%v").stdout.splitlines()
    assert line == f"1:0 {records[0]['key']}={records[0]['value']}"
    assert "6f 72 64 65 72 20" in run("consume", orders, "--tail", "1", "--format", "hex").stdout
    assert "has no partition 9" in run("consume", orders, "-p", "9", exit_code=1).stderr


def test_following_shows_what_comes_and_ctrl_c_ends_it_quietly(
    run: Ottla, topic: str, environment: dict[str, str]
) -> None:
    run("produce", topic, input="before\n")
    command = [OTTLA, "consume", topic, "--tail", "1", "--follow"]
    reader = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "before\n"
        run("produce", topic, input="after\n")
        assert reader.stdout.readline() == "after\n"
        reader.send_signal(signal.SIGINT)
        rest, complaint = reader.communicate(timeout=30)
        assert (reader.returncode, rest, complaint) == (130, "", "")
    finally:
        reader.kill()
        reader.wait()


def test_a_reader_that_leaves_early_ends_the_pipe_quietly(topic: str, run: Ottla, environment: dict[str, str]) -> None:
    run("produce", topic, input="line\n" * 200_000)
    piped = f"'{OTTLA}' consume {topic} | head -n 1"
    done = subprocess.run(["/bin/sh", "-c", piped], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("line\n", "")


def test_the_cluster_and_its_features(run: Ottla, broker: BrokerUnderTest) -> None:
    cluster = json_of(run("cluster", "describe", "--json"))
    assert [each["port"] for each in cluster["brokers"]] == [broker.port]
    assert cluster["controller"] == cluster["brokers"][0]["id"]
    assert cluster["cluster_id"] in run("cluster", "describe").stdout
    features = {each["name"]: each for each in json_of(run("features", "describe", "--json"))["features"]}
    version = features["metadata.version"]
    assert version["supported_min"] <= version["finalized"] <= version["supported_max"]
    assert "transaction.version" in run("features", "describe").stdout


def test_the_benchmark_prints_rates_and_cleans_up(run: Ottla, topic: str) -> None:
    produced, consumed = json_of(run("bench", "--count", "20000", "--size", "100", "--json"))
    assert (produced["direction"], produced["records"], produced["bytes"]) == ("produce", 20_000, 2_000_000)
    assert (consumed["direction"], consumed["records"], consumed["bytes"]) == ("consume", 20_000, 2_000_000)
    assert produced["records_per_second"] > 0 < consumed["records_per_second"]

    def clean() -> None:
        assert not [each for each in json_of(run("topic", "list", "--json")) if each["name"].startswith("ottla-bench")]

    eventually(clean)
    run("bench", "--topic", topic, "--only", "produce", "--count", "1000", "--compression", "lz4")
    assert "consume" in run("bench", "--topic", topic, "--only", "consume").stdout
    assert run("consume", topic, "--format", "%o").stdout.splitlines()[-1] == "999"


@pytest.mark.needs_directory
def test_the_files_of_a_partition_are_dumped(run: Ottla, orders: str, data_dir: Path) -> None:
    documents = json_of(run("log", "dump", str(data_dir / f"{orders}-0"), "--json"))
    kinds = {document["kind"] for document in documents}
    assert {"segment", "offset index", "time index", "properties"} <= kinds
    assert not any(document["trouble"] for document in documents)
    [segment] = [document for document in documents if document["kind"] == "segment"]
    expected = [record["value"] for record in records_of(run("consume", orders, "-p", "0", "--json"))]
    assert sum(batch["records"] for batch in segment["entries"]) == len(expected)
    assert all(batch["crc"] for batch in segment["entries"])
    [shown] = json_of(run("log", "dump", segment["file"], "--records", "--json"))
    assert [record["value"] for record in shown["entries"]] == expected


@pytest.mark.needs_directory
def test_the_metadata_log_is_dumped_in_words(run: Ottla, topic: str, data_dir: Path) -> None:
    [segment] = sorted((data_dir / "__cluster_metadata-0").glob("*.log"))[-1:]
    shown = run("log", "dump", str(segment), "--records", "--count", "0", "--json").stdout
    assert f"TopicRecord v0: name={topic} " in shown
    assert "unreadable" not in shown
    assert "unknown record type" not in shown


@pytest.mark.needs_ottla
def test_up_says_where_it_listens_and_stops_when_told(tmp_path: Path, environment: dict[str, str]) -> None:
    command = [OTTLA, "up", "--port", "0", "--data", str(tmp_path / "data")]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        ready = re.search(r"bootstrap\.servers=(\S+)", server.stdout.readline())
        assert ready is not None
        environment["OTTLA_BOOTSTRAP_SERVERS"] = ready[1]
        piped = f"echo hello | '{OTTLA}' produce greetings && '{OTTLA}' consume greetings"
        done = subprocess.run(["/bin/sh", "-c", piped], env=environment, capture_output=True, text=True, timeout=60)
        assert done.stdout == "hello\n"
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=30) == 0
    finally:
        server.kill()
        server.wait()
