"""Kafka's own tools that move records: console producer and consumer, perf test, get-offsets, delete-records."""

import json
from pathlib import Path

import pytest

from tests.conformance.client import Record
from tests.conformance.kafka_tools import Tools
from tests.conformance.segments import batches_on_disk
from tests.conformance.under_test import Keeper

LINES = ["a:1", "b:2", "a:3"]
PARSE_KEYS = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")


def consume(tools: Tools, topic: str, *options: str, offset: str, count: int) -> list[str]:
    where = ("--topic", topic, "--partition", "0", "--offset", offset, "--max-messages", str(count))
    return tools.ask("ConsoleConsumer", *where, "--timeout-ms", "20000", *options).lines


def test_console_producer_to_console_consumer(tools: Tools, topic: str) -> None:
    tools.ask("ConsoleProducer", "--topic", topic, *PARSE_KEYS, stdin="\n".join(LINES) + "\n")
    shown = ("--formatter-property", "print.key=true", "--formatter-property", "key.separator=:")
    assert consume(tools, topic, *shown, offset="earliest", count=3) == LINES
    assert consume(tools, topic, offset="1", count=2) == ["2", "3"]


def test_console_consumer_shows_offset_time_and_headers(tools: Tools, keeper: Keeper, topic: str) -> None:
    [stored] = keeper.produce(topic, [Record(key=b"k", value=b"v", headers=[("h", b"1"), ("none", None)])])
    wanted = ("print.offset=true", "print.timestamp=true", "print.headers=true", "print.key=true")
    properties = [part for one in wanted for part in ("--formatter-property", one)]
    [line] = consume(tools, topic, *properties, offset="earliest", count=1)
    assert line == f"CreateTime:{stored.timestamp}\tOffset:0\th:1,none:null\tk\tv"


@pytest.mark.needs_directory
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_console_producer_compresses(tools: Tools, topic: str, data_dir: Path, codec: str) -> None:
    tools.ask("ConsoleProducer", "--topic", topic, "--compression-codec", codec, stdin="text " * 100 + "\n")
    assert [batch.codec for batch in batches_on_disk(data_dir, topic)] == [codec]
    assert consume(tools, topic, offset="earliest", count=1) == ["text " * 100]


def test_producer_perf_test(tools: Tools, topic: str) -> None:
    load = ("--topic", topic, "--num-records", "20000", "--record-size", "100", "--throughput", "-1")
    printed = tools.ask("ProducerPerformance", *load)
    assert "20000 records sent" in printed.lines[-1]
    assert not printed.err
    assert tools.ask("GetOffsetShell", "--topic", topic).lines == [f"{topic}:0:20000"]


def test_get_offsets(tools: Tools, keeper: Keeper, topic_name: str) -> None:
    keeper.create(topic_name, partitions=2)
    [first] = keeper.produce(topic_name, [Record(value=b"first", partition=1)])
    keeper.produce(topic_name, [Record(value=b"second", partition=1)])

    def offsets(*options: str) -> list[str]:
        return tools.ask("GetOffsetShell", "--topic-partitions", f"{topic_name}:0-2", *options).lines

    assert offsets() == [f"{topic_name}:0:0", f"{topic_name}:1:2"]
    assert offsets("--time", "earliest") == [f"{topic_name}:0:0", f"{topic_name}:1:0"]
    assert offsets("--time", "max-timestamp") == [f"{topic_name}:1:1"]
    assert offsets("--time", str(first.timestamp)) == [f"{topic_name}:1:0"]


def test_delete_records(tools: Tools, keeper: Keeper, topic: str, tmp_path: Path) -> None:
    for _ in range(5):
        keeper.produce(topic, [Record(value=b"v")])
    wanted = {"partitions": [{"topic": topic, "partition": 0, "offset": 3}], "version": 1}
    file = tmp_path / "delete.json"
    file.write_text(json.dumps(wanted))
    assert (
        f"partition: {topic}-0\tlow_watermark: 3" in tools.ask("DeleteRecordsCommand", "--offset-json-file", file).out
    )
    assert keeper.locate(topic, "earliest").offset == 3
