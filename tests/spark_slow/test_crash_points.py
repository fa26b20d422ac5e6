"""kill -9 of tasks, of drivers with their JVM, and of the broker, five times for each sink and each place: input = output.

Every record of a topic is in the sink once, whatever died when. Long: `make chaos-spark`.
"""

import random
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import ottla.testing
from ottla.testing import Broker
from tests.postgres import Database
from tests.spark.crashing_sink import CrashPoint
from tests.spark_slow.crash_pipeline import DEATHS, DRIVER_SECONDS_MAX, Pipeline, create_orders, pipeline_into
from tests.spark_slow.crash_sinks import SINKS, CrashSink

EVERY_SINK = pytest.mark.parametrize("sink", SINKS.values(), ids=SINKS.keys())
EVERY_CRASH_POINT = pytest.mark.parametrize(
    ("sink", "point"),
    [pytest.param(sink, point, id=f"{name}-{point}") for name, sink in SINKS.items() for point in sink.crash_points],
)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with ottla.testing.broker() as started:
        create_orders(started.bootstrap_servers)
        yield started


@pytest.fixture
def pipeline(broker: Broker, tmp_path: Path, database: Database, sink: CrashSink) -> Pipeline:
    return pipeline_into(sink, broker.bootstrap_servers, tmp_path, database)


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
def test_a_broker_that_is_killed_again_and_again(broker: Broker, pipeline: Pipeline) -> None:
    """A query that it leaves alone for too long fails; its next run goes on."""
    chance = random.Random(pipeline.orders.sink)
    kills, code = 0, None
    for _ in range(DEATHS + 1):
        with pipeline.driver(pipeline.orders) as driver:
            while kills < DEATHS and pipeline.wait_for_micro_batch(driver):
                time.sleep(chance.random() / 4)
                broker.kill()
                broker.start()
                kills += 1
            code = driver.wait(DRIVER_SECONDS_MAX)
        if code == 0:
            break
    assert (kills, code) == (DEATHS, 0)
    pipeline.assert_all_once()
