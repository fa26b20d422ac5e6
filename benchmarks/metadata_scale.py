"""How the controller bears a large cluster: 500,000 partitions of three replicas over 100 brokers, none of which runs.

The decisions, the records and the snapshot are the real ones; the quorum is not part of it, so that no figure holds a
disk's or a network's time but for the snapshot file. `python -m benchmarks.metadata_scale` measures 50,000, 150,000 and
500,000 partitions, each in a process of its own for the sake of its memory, prints a table and appends a JSON line per
size to results/metadata-scale.jsonl.

    create      topics of 100 partitions each, decided and replayed
    memory      of the committed image; a leading controller has a second one, with an index (`take over`)
    snapshot    encoded and written; its size; read and replayed again, as a node does when it starts
    take over   the controller's own image copied and its index built
    a death     of a broker that leads one partition in a hundred: every new leader decided; then written to record
                batches and replayed, in the controller's image and in the committed one
"""

import argparse
import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeVar
from uuid import UUID

from rich.console import Console
from rich.table import Table

from benchmarks.report import RESULTS, machine_facts
from ottla.metadata.bootstrap import bootstrap_records
from ottla.metadata.controller.brokers import UNFENCE, decide_fence_broker, decide_register_broker
from ottla.metadata.controller.decision import ControllerSettings
from ottla.metadata.controller.topics import decide_create_topics
from ottla.metadata.features import SUPPORTED_FEATURES
from ottla.metadata.image import MetadataBatch, MetadataImage
from ottla.metadata.records import MetadataRecord, encode_record
from ottla.metadata.snapshot import SnapshotFiles
from ottla.server.real_disk import RealDisk
from ottla.wire import api
from ottla.wire.records import BatchBuilder

T = TypeVar("T")

PARTITION_COUNTS: Final = (50_000, 150_000, 500_000)
BROKER_COUNT: Final = 100
RACK_COUNT: Final = 5
PARTITIONS_PER_TOPIC: Final = 100
TOPICS_PER_REQUEST: Final = 90
REPLICATION_FACTOR: Final = 3
STATM: Final = Path("/proc/self/statm")
PAGE_BYTES: Final = 4096
MEGABYTE: Final = 1_000_000

Figures = dict[str, float]
ROWS: Final = {
    "create": "create, s",
    "memory": "memory of one image, MB",
    "memory_leading": "memory of a controller that leads, MB",
    "snapshot_bytes": "snapshot, MB",
    "snapshot_write": "snapshot written, s",
    "snapshot_read": "snapshot read and replayed, s",
    "take_over": "take over, s",
    "changed": "a death: partitions that change",
    "elected": "a death: leaders elected",
    "decide": "a death: decided, s",
    "record": "a death: written and replayed twice, s",
}


class Stopwatch:
    def __init__(self) -> None:
        self.figures: Figures = {}

    def measure(self, name: str, work: Callable[[], T]) -> T:
        begun = time.perf_counter()
        result = work()
        self.figures[name] = time.perf_counter() - begun
        return result


def measure(partition_count: int) -> Figures:
    watch = Stopwatch()
    before = _resident_bytes()
    image = MetadataImage()
    _replay(image, bootstrap_records())
    _register_brokers(image)
    watch.measure("create", lambda: _create_topics(image, partition_count))
    watch.figures["memory"] = (_resident_bytes() - before) / MEGABYTE
    leading = watch.measure("take_over", lambda: _take_over(image))
    watch.figures["memory_leading"] = (_resident_bytes() - before) / MEGABYTE
    _snapshot(image, watch)
    _lose_broker(image, leading, watch)
    return watch.figures


def _register_brokers(image: MetadataImage) -> None:
    for broker_id in range(BROKER_COUNT):
        request = api.BrokerRegistrationRequest(
            broker_id=broker_id,
            incarnation_id=UUID(int=1_000 + broker_id),
            listeners=[api.BrokerRegistrationRequest.Listener(name="PLAINTEXT", host=f"host-{broker_id}", port=9092)],
            features=[
                api.BrokerRegistrationRequest.Feature(
                    name=name, min_supported_version=one.min_version, max_supported_version=one.max_version
                )
                for name, one in SUPPORTED_FEATURES.items()
            ],
            rack=f"rack-{broker_id % RACK_COUNT}",
            log_dirs=[UUID(int=2_000 + broker_id)],
        )
        decision = decide_register_broker(image, request)
        _replay(image, decision.records)
        change = api.BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=decision.reply, fenced=UNFENCE)
        _replay(image, [change])


def _create_topics(image: MetadataImage, partition_count: int) -> None:
    numbers = count(1_000_003, 7_919)  # Placement begins at the id: any spread will do, the same in every run.
    settings = ControllerSettings(node_id=0, new_uuid=lambda: UUID(int=next(numbers)))
    names = [f"topic-{number}" for number in range(partition_count // PARTITIONS_PER_TOPIC)]
    for start in range(0, len(names), TOPICS_PER_REQUEST):
        request = api.CreateTopicsRequest(
            topics=[
                api.CreateTopicsRequest.CreatableTopic(
                    name=name, num_partitions=PARTITIONS_PER_TOPIC, replication_factor=REPLICATION_FACTOR
                )
                for name in names[start : start + TOPICS_PER_REQUEST]
            ]
        )
        _replay(image, decide_create_topics(image, request, settings, describe_configs=False).records)


def _snapshot(image: MetadataImage, watch: Stopwatch) -> None:
    with TemporaryDirectory() as directory:
        files = SnapshotFiles(RealDisk(), directory)
        snapshot_id = watch.measure("snapshot_write", lambda: files.write(image, now_ms=0))
        watch.figures["snapshot_bytes"] = (Path(directory) / snapshot_id.file_name).stat().st_size / MEGABYTE
        found = watch.measure("snapshot_read", files.load_newest)
        assert found is not None and len(found.image.topics) == len(image.topics)


def _take_over(image: MetadataImage) -> MetadataImage:
    leading = image.copy()
    next(leading.partitions_on(0))  # The first to ask has the index built.
    return leading


def _lose_broker(image: MetadataImage, leading: MetadataImage, watch: Stopwatch) -> None:
    leader_counts = [0] * BROKER_COUNT
    for topic in leading.topics.values():
        for partition in topic.partitions.values():
            leader_counts[partition.leader] += 1
    lost = leader_counts.index(max(leader_counts))
    epoch = leading.brokers[lost].epoch
    decision = watch.measure("decide", lambda: decide_fence_broker(leading, lost, epoch))
    watch.figures["changed"] = len(decision.records) - 1
    watch.figures["elected"] = leader_counts[lost]

    def record() -> None:
        for chunk in _chunks(decision.records):
            _encode(chunk)
            _replay(leading, chunk)
            _replay(image, chunk)

    watch.measure("record", record)
    assert all(ref.partition.leader not in (lost, -1) for ref in leading.partitions_on(lost))


def _encode(records: list[MetadataRecord]) -> bytes:
    builder = BatchBuilder(base_offset=0, leader_epoch=1)
    for record in records:
        builder.append(0, None, encode_record(record))
    return bytes(builder.build())


def _chunks(records: list[MetadataRecord]) -> Iterator[list[MetadataRecord]]:
    for start in range(0, len(records), 10_000):
        yield records[start : start + 10_000]


def _replay(image: MetadataImage, records: list[MetadataRecord]) -> None:
    image.replay_batch(MetadataBatch(records, image.offset + len(records), 1, 0))
    image.take_delta()


def _resident_bytes() -> int:
    gc.collect()
    return int(STATM.read_text().split()[1]) * PAGE_BYTES


# ---- the run ----


def _measure_apart(partition_count: int) -> Figures:
    command = [sys.executable, "-m", "benchmarks.metadata_scale", "--one", str(partition_count)]
    figures: Figures = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return figures


def _table(found: dict[int, Figures], facts: dict[str, Any]) -> Table:
    table = Table(
        title=f"{BROKER_COUNT} brokers in {RACK_COUNT} racks, replication factor {REPLICATION_FACTOR}",
        caption=f"{facts['cores']} × {facts['processor']}, Python {facts['python']}",
    )
    table.add_column("partitions")
    for partition_count in found:
        table.add_column(f"{partition_count:,}", justify="right")
    for key, title in ROWS.items():
        values = [figures[key] for figures in found.values()]
        table.add_row(title, *(f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in values))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description="The controller at scale; nothing else should run.")
    parser.add_argument("--one", type=int, help="measure this many partitions here and print the figures as JSON")
    parser.add_argument("--partitions", type=int, nargs="*", default=PARTITION_COUNTS, help="sizes to measure")
    arguments = parser.parse_args()
    if arguments.one is not None:
        print(json.dumps(measure(arguments.one)))
        return
    facts = machine_facts([], quick=False)
    found = {partition_count: _measure_apart(partition_count) for partition_count in arguments.partitions}
    Console().print(_table(found, facts))
    with (RESULTS / "metadata-scale.jsonl").open("a") as file:
        for partition_count, figures in found.items():
            line = {**facts, "partitions": partition_count, "brokers": BROKER_COUNT, **figures}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
