"""Kafka's kafka-dump-log reads what lies in the broker's directory: segments, indexes, snapshots, the metadata log."""

import re
from functools import partial
from pathlib import Path

import pytest

from tests.conformance.client import Record
from tests.conformance.kafka_tools import Tools
from tests.conformance.registry import start
from tests.conformance.under_test import Keeper
from tests.conformance.waiting import eventually

pytestmark = pytest.mark.needs_directory

SEGMENT_BYTES = 1 << 20  # The least that Kafka allows.
VALUE_BYTES = 10_000
RECORD_COUNT = 300
COMPLAINTS = re.compile(r"mismatch|non-consecutive|isvalid: false|could not|corrupt|out of order", re.IGNORECASE)


@pytest.fixture
def partition_directory(keeper: Keeper, topic_name: str, data_dir: Path) -> Path:
    """A partition of several segments, written by one idempotent producer."""
    keeper.create(topic_name, configs={"segment.bytes": str(SEGMENT_BYTES)})
    records = [Record(key=b"%d" % number, value=b"x" * VALUE_BYTES) for number in range(RECORD_COUNT)]
    keeper.produce(topic_name, records, idempotence=True, batch_bytes=5 * VALUE_BYTES)
    [directory] = data_dir.rglob(f"{topic_name}-0")
    return directory


def test_scene_5_segments_are_named_by_their_first_offset_and_clean(tools: Tools, partition_directory: Path) -> None:
    logs = sorted(partition_directory.glob("*.log"))
    assert len(logs) >= 3
    next_offset = 0
    for log in logs:
        printed = tools.dump(log, "--print-data-log").out
        assert not COMPLAINTS.search(printed), printed
        assert log.name == f"{next_offset:020d}.log"
        assert f"Log starting offset: {next_offset}\n" in printed
        offsets = [int(offset) for offset in re.findall(r"^\| offset: (\d+) ", printed, re.MULTILINE)]
        assert offsets == list(range(next_offset, next_offset + len(offsets)))
        next_offset += len(offsets)
        assert log.stat().st_size <= SEGMENT_BYTES
    assert next_offset == RECORD_COUNT


def test_indexes_lead_into_their_segments(tools: Tools, partition_directory: Path) -> None:
    """Those of closed segments, once they are written: the broker itself works with what it has in memory."""
    closed = sorted(partition_directory.glob("*.log"))[:-1]

    def offsets_dumped(log: Path) -> str:
        printed = tools.dump(log.with_suffix(".index")).out
        assert len(re.findall(r"^offset: \d+ position: \d+$", printed, re.MULTILINE)) > 3
        return printed

    def times_dumped(log: Path) -> str:
        printed = tools.dump(log.with_suffix(".timeindex")).out
        assert re.search(r"^timestamp: \d+ offset: \d+$", printed, re.MULTILINE)
        return printed

    for log in closed:
        for dumped in (offsets_dumped, times_dumped):
            printed = eventually(partial(dumped, log))
            assert not COMPLAINTS.search(printed), printed
        assert "passed sanity check" in tools.dump(log.with_suffix(".index"), "--index-sanity-check").out


def test_producer_snapshots_remember_the_last_batch(tools: Tools, partition_directory: Path) -> None:
    snapshots = sorted(partition_directory.glob("*.snapshot"))
    logs = sorted(partition_directory.glob("*.log"))
    assert snapshots
    assert {snapshot.stem for snapshot in snapshots} <= {log.stem for log in logs}
    for snapshot in snapshots:
        printed = tools.dump(snapshot).out
        found = re.search(r"producerId: (\d+) producerEpoch: 0 .*lastSequence: (\d+) lastOffset: (\d+)", printed)
        assert found is not None, printed
        assert int(found[2]) == int(found[3]) == int(snapshot.stem) - 1


@pytest.mark.needs_ottla
def test_metadata_snapshots_are_kafkas_and_the_broker_starts_from_them(tools: Tools) -> None:
    import ottla.testing

    names = [f"kept-{number}" for number in range(20)]
    config = {"metadata.log.max.record.bytes.between.snapshots": 500}
    with ottla.testing.broker(config=config) as broker, start("confluent-kafka", broker.bootstrap_servers) as client:
        for name in names:
            client.create_topic(name)

        def snapshots() -> list[Path]:
            found = sorted(Path(broker.data_dir).rglob("__cluster_metadata-0/*.checkpoint"))
            assert found
            return found

        printed = tools.dump(eventually(snapshots)[-1], "--cluster-metadata-decoder").out
        assert not COMPLAINTS.search(printed), printed
        assert '"name":"kept-0"' in printed
        assert "SnapshotHeader" in printed and "SnapshotFooter" in printed
        broker.kill()
        broker.restart()
        assert eventually(client.topics) >= set(names)


def test_the_metadata_log_is_kafkas(tools: Tools, keeper: Keeper, topic_name: str, data_dir: Path) -> None:
    keeper.create(topic_name, partitions=2, configs={"retention.ms": "7654321"})
    topic_id = keeper.client.call("describe_topic", name=topic_name)["id"]
    [directory] = data_dir.rglob("__cluster_metadata-0")

    def dumped() -> str:
        logs = sorted(directory.glob("*.log"))
        printed = "\n".join(tools.dump(log, "--cluster-metadata-decoder", "--skip-record-metadata").out for log in logs)
        assert topic_name in printed
        return printed

    printed = eventually(dumped)
    assert not COMPLAINTS.search(printed), printed
    assert f'"type":"TOPIC_RECORD","version":0,"data":{{"name":"{topic_name}","topicId":"{topic_id}"}}' in printed
    assert printed.count(f'"topicId":"{topic_id}"') == 3  # The topic and its two partitions.
    assert re.search(
        rf'"CONFIG_RECORD".*"resourceName":"{topic_name}","name":"retention.ms","value":"7654321"', printed
    )
    for kind in ("FEATURE_LEVEL_RECORD", "REGISTER_BROKER_RECORD", "PARTITION_RECORD"):
        assert f'"type":"{kind}"' in printed, kind
