"""A topic full of records on its way into a sink, by drivers that are processes of their own and are killed at the end."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ottla.client import Admin, Producer
from tests.postgres import Database
from tests.spark_slow.crash_driver import Orders
from tests.spark_slow.crash_sinks import TARGET, TARGET_PARTITIONS, CrashSink, Place

DEATHS = int(os.environ.get("OTTLA_SPARK_DEATHS", "5"))
DRIVER_SECONDS_MAX = 900  # On a machine that many share; a driver that hangs is found all the same.
BATCHES = 16
RECORDS_PER_BATCH = 200
RECORDS = BATCHES * RECORDS_PER_BATCH
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    sink: CrashSink
    place: Place
    orders: Orders

    @contextmanager
    def driver(self, orders: Orders) -> "Iterator[subprocess.Popen[bytes]]":
        """With its JVM and workers, all of which are killed at the end."""
        command = [sys.executable, "-m", "tests.spark_slow.crash_driver", orders.to_json()]
        driver = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
        try:
            yield driver
        finally:
            with suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()

    def run(self, orders: Orders) -> int:
        with self.driver(orders) as driver:
            return driver.wait(DRIVER_SECONDS_MAX)

    def wait_for_micro_batch(self, driver: "subprocess.Popen[bytes]") -> bool:
        """Until another one begins; False if the driver ends instead."""
        before = self._begun()
        while self._begun() == before:
            if driver.poll() is not None:
                return False
            time.sleep(0.01)  # Watching another process: there is nothing to wait on.
        return True

    def _begun(self) -> int:
        offsets = Path(self.orders.checkpoint, "offsets")
        return len(list(offsets.iterdir())) if offsets.exists() else 0

    def assert_all_once(self) -> None:
        values = self.sink.values(self.place)
        assert sorted(values) == sorted(f"order {number}" for number in range(RECORDS))


def create_orders(bootstrap_servers: str) -> None:
    """The topic that is read, full, and the one that may be written to, empty."""
    with Admin(bootstrap_servers=bootstrap_servers) as admin:
        admin.create_topic("orders", 2)
        admin.create_topic(TARGET, TARGET_PARTITIONS)
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        for number in range(RECORDS):
            producer.send("orders", value=f"order {number}".encode(), partition=number % 2)


def pipeline_into(sink: CrashSink, bootstrap_servers: str, directory: Path, database: Database | None) -> Pipeline:
    place = Place(directory=directory / "table", database=database, bootstrap_servers=bootstrap_servers)
    orders = Orders(
        sink=sink.kind,
        settings=sink.settings(place),
        columns=sink.columns,
        bootstrap_servers=bootstrap_servers,
        topic="orders",
        checkpoint=str(directory / "checkpoint"),
        records_per_batch=RECORDS_PER_BATCH,
    )
    return Pipeline(sink=sink, place=place, orders=orders)
