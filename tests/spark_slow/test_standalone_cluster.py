"""A pipeline on a real Spark cluster, unchanged but for `--master`: a worker dies, and every order is counted once."""

import signal
from pathlib import Path

import ottla.testing
from ottla.spark.pipelines.status_files import StateDirectory
from tests.spark.waiting import until
from tests.spark_slow.running_totals import (
    ORDERS_A_ROUND,
    create_topics,
    has_rows,
    rows_of,
    send_orders,
    started,
    totals,
    totals_after,
)
from tests.spark_slow.standalone_cluster import standalone_cluster

ROUNDS = 4
SECONDS_MAX = 300
SMALL = ("--conf", "spark.executor.memory=512m", "--conf", "spark.sql.shuffle.partitions=2")


def test_a_pipeline_on_a_cluster_goes_on_when_a_worker_dies(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "state")
    with ottla.testing.broker() as broker, standalone_cluster(tmp_path) as cluster:
        servers = broker.bootstrap_servers
        create_topics(servers)
        send_orders(servers, 0)
        driver = started(servers, state, "--master", cluster.master, *SMALL)
        until(lambda: has_rows(state, driver), seconds_max=SECONDS_MAX)
        for worker in cluster.workers:
            until(worker.has_executor, seconds_max=SECONDS_MAX)
        send_orders(servers, 1)
        cluster.workers[0].kill()
        for round_number in range(2, ROUNDS):
            send_orders(servers, round_number)
        until(lambda: rows_of(state, driver) >= ROUNDS * ORDERS_A_ROUND, seconds_max=SECONDS_MAX)
        driver.send_signal(signal.SIGTERM)
        assert driver.wait(SECONDS_MAX) == 0
        found = totals(servers)
    assert found == totals_after(ROUNDS)
