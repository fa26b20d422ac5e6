"""Drivers that die by kill -9, five times each, before and after a store's commit and at any time: input = output.

Every record of a topic is in the store once, whatever died when. Parquet is Spark's own sink, whose commit is not ours
to interrupt: its drivers die at any time.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

import ottla.testing
from ottla.client import Admin, Producer
from ottla.testing import Broker
from tests.postgres import Database
from tests.spark_slow.store_driver import Orders

DEATHS = int(os.environ.get("OTTLA_SPARK_DEATHS", "5"))
DRIVER_TIMEOUT_SECONDS = 300
BATCHES = 30
RECORDS_PER_BATCH = 200
RECORDS = BATCHES * RECORDS_PER_BATCH
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with ottla.testing.broker() as started:
        with Admin(bootstrap_servers=started.bootstrap_servers) as admin:
            admin.create_topic("orders", 2)
        with Producer(bootstrap_servers=started.bootstrap_servers) as producer:
            for number in range(RECORDS):
                producer.send("orders", value=f"order {number}".encode(), partition=number % 2)
        yield started


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    sink: str
    settings: Callable[[Path, Database], dict[str, Any]]
    values: Callable[[Path, Database], list[str]]


def delta_values(place: Path, _: Database) -> list[str]:
    return DeltaTable(str(place)).to_pyarrow_table()["value"].to_pylist()


def iceberg_values(place: Path, _: Database) -> list[str]:
    catalog = load_catalog("ottla", type="sql", uri=f"sqlite:///{place / 'catalog.db'}", warehouse=place.as_uri())
    return catalog.load_table("shop.orders").scan().to_arrow()["value"].to_pylist()


def parquet_values(place: Path, _: Database) -> list[str]:
    """Of the files that Spark's log of the sink lists, as Spark itself reads them."""
    log = place / "_spark_metadata"
    newest_compact = max((one for one in log.glob("*.compact")), key=lambda one: int(one.stem), default=None)
    first = int(newest_compact.stem) if newest_compact else -1
    logs = [newest_compact] if newest_compact else []
    logs += [one for one in log.iterdir() if one.name.isdecimal() and int(one.name) > first]
    entries = [json.loads(line) for one in logs for line in one.read_text().splitlines()[1:]]
    files = {entry["path"].removeprefix("file://") for entry in entries if entry["action"] == "add"}
    return [value for file in files for value in pq.read_table(file)["value"].to_pylist()]


def postgres_values(_: Path, database: Database) -> list[str]:
    return [row[0] for row in database.execute("SELECT value FROM orders")]


def postgres_settings(_: Path, database: Database) -> dict[str, Any]:
    return {"url": database.url, "table": "orders", "createTable": True}


NOT_OURS = {("parquet", "before"), ("parquet", "after")}
STORES = {
    "delta": Store(sink="delta", settings=lambda place, _: {"table": str(place)}, values=delta_values),
    "iceberg": Store(
        sink="iceberg",
        settings=lambda place, _: {"table": "shop.orders", "warehouse": str(place)},
        values=iceberg_values,
    ),
    "parquet": Store(sink="parquet", settings=lambda place, _: {"path": str(place)}, values=parquet_values),
    "jdbc by record": Store(sink="jdbc", settings=postgres_settings, values=postgres_values),
    "jdbc by batch number": Store(
        sink="jdbc",
        settings=lambda place, database: {**postgres_settings(place, database), "without_record_key": True},
        values=postgres_values,
    ),
}

CASES = [(name, when) for name in STORES for when in ("before", "after", "any time") if (name, when) not in NOT_OURS]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("name", "when"), CASES)
def test_no_record_is_lost_or_twice_when_drivers_die(
    broker: Broker, tmp_path: Path, database: Database, name: str, when: str
) -> None:
    store = STORES[name]
    place, checkpoint = tmp_path / "table", tmp_path / "checkpoint"
    orders = Orders(
        sink=store.sink,
        settings=store.settings(place, database),
        bootstrap_servers=broker.bootstrap_servers,
        topic="orders",
        checkpoint=str(checkpoint),
        records_per_batch=RECORDS_PER_BATCH,
    )
    chance = random.Random(f"{name} {when}")
    for _ in range(DEATHS):
        if when == "any time":
            die_at_any_time(orders, chance)
        else:
            with running_driver(replace(orders, death=when)) as driver:
                assert driver.wait(DRIVER_TIMEOUT_SECONDS) == -signal.SIGKILL
    with running_driver(orders) as driver:
        assert driver.wait(DRIVER_TIMEOUT_SECONDS) == 0
    values = store.values(place, database)
    assert len(values) == len(set(values)) == RECORDS


@contextmanager
def running_driver(orders: Orders) -> "Iterator[subprocess.Popen[bytes]]":
    """With its JVM and workers, all of which are killed at the end."""
    command = [sys.executable, "-m", "tests.spark_slow.store_driver", orders.to_json()]
    driver = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
    try:
        yield driver
    finally:
        with suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


def die_at_any_time(orders: Orders, chance: random.Random) -> None:
    """Of the first second of its work."""
    offsets = Path(orders.checkpoint) / "offsets"
    before = entries(offsets)
    with running_driver(orders) as driver:
        while entries(offsets) == before:
            assert driver.poll() is None, "it ended before it began a micro-batch"
            time.sleep(0.01)  # Watching another process: there is nothing to wait on.
        time.sleep(chance.random())


def entries(directory: Path) -> int:
    return len(list(directory.iterdir())) if directory.exists() else 0
