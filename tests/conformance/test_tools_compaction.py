"""Kafka's kafka-dump-log reads what compaction wrote: batches with gaps, empty ones, delete horizons, indexes."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla.testing
from tests.conformance.client import Client, Record
from tests.conformance.compacting import CONFIGS, compacting_broker, eventually_compacted, seal
from tests.conformance.kafka_tools import Tools
from tests.conformance.registry import start
from tests.conformance.test_tools_dump import COMPLAINTS

pytestmark = pytest.mark.needs_ottla

RECORD_COUNT = 300


@pytest.fixture(scope="module")
def compacting() -> Iterator[ottla.testing.Broker]:
    with compacting_broker() as broker:
        yield broker


@pytest.fixture(scope="module")
def writer(compacting: ottla.testing.Broker) -> Iterator[Client]:
    with start("confluent-kafka", compacting.bootstrap_servers) as client:
        yield client


def dumped(tools: Tools, log: Path) -> str:
    printed = tools.dump(log, "--print-data-log", "--deep-iteration").out
    assert not re.search("isvalid: false|could not|corrupt", printed, re.IGNORECASE), printed
    return printed


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_a_cleaned_segment_is_a_kafka_segment(
    tools: Tools, compacting: ottla.testing.Broker, writer: Client, topic_name: str, compression: str
) -> None:
    writer.create_topic(topic_name, configs=CONFIGS | {"index.interval.bytes": "512"})
    records = [Record(key=b"%d" % (number % 100), value=b"v" * 50) for number in range(RECORD_COUNT)]
    writer.produce(topic_name, records, compression=compression, batch_bytes=1000)
    [tombstone] = writer.produce(topic_name, [Record(key=b"7", value=None)], idempotence=True)
    seal(writer, topic_name)
    kept = [offset for offset in range(200, RECORD_COUNT) if offset != 207]
    eventually_compacted(writer, topic_name, [*kept, tombstone.offset])
    log = next(Path(compacting.data_dir).rglob(f"{topic_name}-0")) / f"{0:020d}.log"
    printed = dumped(tools, log)
    offsets = [int(offset) for offset in re.findall(r"^\| offset: (\d+) ", printed, re.MULTILINE)]
    assert offsets == [*kept, tombstone.offset]
    assert "deleteHorizonMs: OptionalLong[" in printed
    assert f"compresscodec: {compression}" in printed
    for suffix in (".index", ".timeindex"):
        found = tools.dump(log.with_suffix(suffix)).out
        assert not COMPLAINTS.search(found), found
    assert "passed sanity check" in tools.dump(log.with_suffix(".index"), "--index-sanity-check").out


def test_the_empty_batch_of_a_producer_and_the_checkpoint(
    tools: Tools, compacting: ottla.testing.Broker, writer: Client, topic_name: str
) -> None:
    writer.create_topic(topic_name, configs=CONFIGS)
    writer.produce(topic_name, [Record(key=b"a", value=b"1")] * 5, idempotence=True, linger_ms=50)
    [newest] = writer.produce(topic_name, [Record(key=b"a", value=b"2")])
    seal(writer, topic_name)
    eventually_compacted(writer, topic_name, [newest.offset])
    [directory] = Path(compacting.data_dir).rglob(f"{topic_name}-0")
    printed = dumped(tools, directory / f"{0:020d}.log")
    assert re.search(
        r"baseOffset: \d+ lastOffset: 4 count: 0 baseSequence: \d+ lastSequence: 4 producerId: \d+", printed
    )
    checkpoint = (directory.parent / "cleaner-offset-checkpoint").read_text().splitlines()
    assert f"{topic_name} 0 {newest.offset + 1}" in checkpoint
