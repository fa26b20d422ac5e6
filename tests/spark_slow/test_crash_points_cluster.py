"""The exactly-once sink on three nodes: tasks and drivers die at every point while leaders and coordinators do.

No query fails of it: a driver ends because it was killed, or when it is done, and every record is in the sink once.
Long: `make chaos-spark SUBJECT=cluster`.
"""

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.client import Admin
from tests.spark.crashing_sink import Crash, CrashPoint
from tests.spark_slow.crash_pipeline import DEATHS, Pipeline, create_orders, pipeline_into
from tests.spark_slow.crash_sinks import SINKS, TARGET
from tests.spark_slow.dying_nodes import ROLES, DyingNodes, three_nodes
from tests.unit.spark.query_runs import PARTITIONS, Driver, Query, rows_of

BATCHES_A_RUN_MAX = 4


@pytest.fixture
def nodes(request: pytest.FixtureRequest) -> Iterator[DyingNodes]:
    with three_nodes(random.Random(request.node.name)) as running:
        yield running


@pytest.fixture
def pipeline(nodes: DyingNodes, tmp_path: Path) -> Pipeline:
    create_orders(nodes.bootstrap_servers)
    return pipeline_into(SINKS["topic"], nodes.bootstrap_servers, tmp_path, database=None)


def query_id(pipeline: Pipeline) -> str | None:
    """As Spark has put it down; there is none before its first micro-batch."""
    found = Path(pipeline.orders.checkpoint, "metadata")
    return json.loads(found.read_text())["id"] if found.exists() else None


@pytest.mark.parametrize("point", CrashPoint)
def test_drivers_that_die_at_a_crash_point(nodes: DyingNodes, pipeline: Pipeline, point: CrashPoint) -> None:
    with nodes.dying(lambda: query_id(pipeline)):
        for _ in range(DEATHS):
            assert pipeline.run(replace(pipeline.orders, crash_point=point)) == -signal.SIGKILL
        assert pipeline.run(pipeline.orders) == 0
    pipeline.assert_all_once()
    assert nodes.harmed.keys() == ROLES.keys()


def test_drivers_that_die_at_any_time(nodes: DyingNodes, pipeline: Pipeline) -> None:
    chance = random.Random(pipeline.orders.sink)
    with nodes.dying(lambda: query_id(pipeline)):
        for _ in range(DEATHS):
            with pipeline.driver(pipeline.orders) as driver:
                assert pipeline.wait_for_micro_batch(driver)
                time.sleep(chance.uniform(0, 2))  # Of its work, any moment.
        assert pipeline.run(pipeline.orders) == 0
    pipeline.assert_all_once()


def test_tasks_that_die_with_their_rows_written(nodes: DyingNodes, pipeline: Pipeline) -> None:
    with nodes.dying(lambda: query_id(pipeline)):
        assert pipeline.run(replace(pipeline.orders, task_deaths=DEATHS)) == 0
    assert len(list(Path(pipeline.orders.checkpoint, "deaths").iterdir())) == DEATHS
    pipeline.assert_all_once()


def test_the_protocol_alone_many_times(nodes: DyingNodes) -> None:
    """Without Spark, whose start takes longer than all else: drivers die at points that chance chooses, some batches after
    the one before, until nodes of every role have."""
    with Admin(bootstrap_servers=nodes.bootstrap_servers) as admin:
        admin.create_topic(TARGET, PARTITIONS)
    chance = random.Random(0)
    query = Query(nodes, TARGET)
    batch_id = 0
    with nodes.dying(lambda: query.query_id):
        while min(nodes.harmed[role] for role in ROLES) < DEATHS:
            driver = Driver(query)
            for _ in range(chance.randrange(BATCHES_A_RUN_MAX)):
                driver.batch(batch_id)
                batch_id += 1
            dying = Driver(query, chance.choice(list(CrashPoint)))
            prepared = dying.tasks(batch_id)
            with pytest.raises(Crash):
                dying.writer.commit(prepared, batch_id)
        Driver(query).batch(batch_id)
    found = query.committed()
    expected = rows_of(*range(batch_id + 1))
    assert (found - expected, expected - found) == (Counter(), Counter())
