"""kill -9 of tasks, of drivers with their JVM, and of the broker, five times for each sink and each place: input = output.

Every record of a topic is in the sink once, whatever died when. Long: `make chaos-spark`.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import ottla.testing
from ottla.client import Admin, Producer
from ottla.testing import Broker
from tests.postgres import Database
from tests.spark.crashing_sink import CrashPoint
from tests.spark_slow.crash_driver import Orders
from tests.spark_slow.crash_sinks import SINKS, TARGET, TARGET_PARTITIONS, CrashSink, Place

DEATHS = int(os.environ.get("OTTLA_SPARK_DEATHS", "5"))
DRIVER_SECONDS_MAX = 900  # On a machine that many share; a driver that hangs is found all the same.
BATCHES = 16
RECORDS_PER_BATCH = 200
RECORDS = BATCHES * RECORDS_PER_BATCH
ROOT = Path(__file__).parents[2]

EVERY_SINK = pytest.mark.parametrize("sink", SINKS.values(), ids=SINKS.keys())
EVERY_CRASH_POINT = pytest.mark.parametrize(
    ("sink", "point"),
    [pytest.param(sink, point, id=f"{name}-{point}") for name, sink in SINKS.items() for point in sink.crash_points],
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A topic full of records, and the sink that they go to."""

    broker: Broker
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


@pytest.fixture
def broker() -> Iterator[Broker]:
    with ottla.testing.broker() as started:
        with Admin(bootstrap_servers=started.bootstrap_servers) as admin:
            admin.create_topic("orders", 2)
            admin.create_topic(TARGET, TARGET_PARTITIONS)
        with Producer(bootstrap_servers=started.bootstrap_servers) as producer:
            for number in range(RECORDS):
                producer.send("orders", value=f"order {number}".encode(), partition=number % 2)
        yield started


@pytest.fixture
def pipeline(broker: Broker, tmp_path: Path, database: Database, sink: CrashSink) -> Pipeline:
    place = Place(directory=tmp_path / "table", database=database, bootstrap_servers=broker.bootstrap_servers)
    orders = Orders(
        sink=sink.kind,
        settings=sink.settings(place),
        columns=sink.columns,
        bootstrap_servers=broker.bootstrap_servers,
        topic="orders",
        checkpoint=str(tmp_path / "checkpoint"),
        records_per_batch=RECORDS_PER_BATCH,
    )
    return Pipeline(broker=broker, sink=sink, place=place, orders=orders)


@EVERY_CRASH_POINT
def test_drivers_that_die_at_a_crash_point(pipeline: Pipeline, point: CrashPoint) -> None:
    for _ in range(DEATHS):
        assert pipeline.run(replace(pipeline.orders, crash_point=point)) == -signal.SIGKILL
    assert pipeline.run(pipeline.orders) == 0
    pipeline.assert_all_once()


@EVERY_SINK
def test_drivers_that_die_at_any_time(pipeline: Pipeline) -> None:
    chance = random.Random(pipeline.orders.sink)
    for _ in range(DEATHS):
        with pipeline.driver(pipeline.orders) as driver:
            assert pipeline.wait_for_micro_batch(driver)
            time.sleep(chance.random())  # Of its work, any moment.
    assert pipeline.run(pipeline.orders) == 0
    pipeline.assert_all_once()


@EVERY_SINK
def test_tasks_that_die_with_their_rows_written(pipeline: Pipeline) -> None:
    assert pipeline.run(replace(pipeline.orders, task_deaths=DEATHS)) == 0
    assert len(list(Path(pipeline.orders.checkpoint, "deaths").iterdir())) == DEATHS
    pipeline.assert_all_once()


@EVERY_SINK
def test_a_broker_that_is_killed_again_and_again(pipeline: Pipeline) -> None:
    """A query that it leaves alone for too long fails; its next run goes on."""
    chance = random.Random(pipeline.orders.sink)
    kills, code = 0, None
    for _ in range(DEATHS + 1):
        with pipeline.driver(pipeline.orders) as driver:
            while kills < DEATHS and pipeline.wait_for_micro_batch(driver):
                time.sleep(chance.random() / 4)
                pipeline.broker.kill()
                pipeline.broker.start()
                kills += 1
            code = driver.wait(DRIVER_SECONDS_MAX)
        if code == 0:
            break
    assert (kills, code) == (DEATHS, 0)
    pipeline.assert_all_once()
