"""The sinks that drivers die in front of: what a pipeline says of each, and how others than we read what it holds."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from ottla.base.types import TopicPartition
from ottla.client.raw.cluster import Cluster
from ottla.client.raw.fetching import PartitionReader, committed_only
from ottla.wire.records import records_of
from tests.postgres import Database
from tests.spark.crashing_sink import CrashPoint

TARGET = "target"
TARGET_PARTITIONS = 2
AROUND_COMMIT = (CrashPoint.BEFORE_DECISION, CrashPoint.AFTER_DECISION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a test's sink is, whichever it is."""

    directory: Path
    database: Database | None
    """None where the sink needs none."""
    bootstrap_servers: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashSink:
    kind: str
    settings: Callable[[Place], dict[str, Any]]
    values: Callable[[Place], list[str]]
    crash_points: tuple[CrashPoint, ...] = AROUND_COMMIT
    columns: str = "topic,partition,offset,value"


def topic_values(place: Place) -> list[str]:
    found: list[str] = []
    with Cluster(place.bootstrap_servers, client_id="test", timeout_s=10) as cluster:
        for index in range(TARGET_PARTITIONS):
            partition = TopicPartition(TARGET, index)
            reader = PartitionReader(cluster, partition, read_committed=True, fetch_bytes=1 << 20)
            offset, end = 0, 1
            while offset < end:
                fetched = reader.fetch(offset)
                for batch in committed_only(fetched.batches, fetched.aborted):
                    found += [(record.value or b"").decode() for record in records_of(batch.view)]
                offset, end = fetched.next_offset, fetched.end_offset
    return found


def delta_values(place: Place) -> list[str]:
    return DeltaTable(str(place.directory)).to_pyarrow_table()["value"].to_pylist()


def iceberg_values(place: Place) -> list[str]:
    warehouse = place.directory
    catalog = load_catalog(
        "ottla", type="sql", uri=f"sqlite:///{warehouse / 'catalog.db'}", warehouse=warehouse.as_uri()
    )
    return catalog.load_table("shop.orders").scan().to_arrow()["value"].to_pylist()


def parquet_values(place: Place) -> list[str]:
    """Of the files that Spark's log of the sink lists, as Spark itself reads them."""
    log = place.directory / "_spark_metadata"
    newest_compact = max((one for one in log.glob("*.compact")), key=lambda one: int(one.stem), default=None)
    first = int(newest_compact.stem) if newest_compact else -1
    logs = [newest_compact] if newest_compact else []
    logs += [one for one in log.iterdir() if one.name.isdecimal() and int(one.name) > first]
    entries = [json.loads(line) for one in logs for line in one.read_text().splitlines()[1:]]
    files = {entry["path"].removeprefix("file://") for entry in entries if entry["action"] == "add"}
    return [value for file in files for value in pq.read_table(file)["value"].to_pylist()]


def postgres_settings(place: Place) -> dict[str, Any]:
    assert place.database is not None
    return {"url": place.database.url, "table": "orders", "createTable": True}


def postgres_values(place: Place) -> list[str]:
    assert place.database is not None
    return [row[0] for row in place.database.execute("SELECT value FROM orders")]


SINKS = {
    "topic": CrashSink(
        kind="topic",
        settings=lambda _: {"topic": TARGET},
        values=topic_values,
        crash_points=tuple(CrashPoint),
        columns="value",
    ),
    "delta": CrashSink(kind="delta", settings=lambda place: {"table": str(place.directory)}, values=delta_values),
    "iceberg": CrashSink(
        kind="iceberg",
        settings=lambda place: {"table": "shop.orders", "warehouse": str(place.directory)},
        values=iceberg_values,
    ),
    "parquet": CrashSink(
        kind="parquet",
        settings=lambda place: {"path": str(place.directory)},
        values=parquet_values,
        crash_points=(),  # Its commit is Spark's own and not ours to interrupt: its drivers die at any time.
    ),
    "jdbc by record": CrashSink(kind="jdbc", settings=postgres_settings, values=postgres_values),
    "jdbc by batch number": CrashSink(kind="jdbc", settings=postgres_settings, values=postgres_values, columns="value"),
}
