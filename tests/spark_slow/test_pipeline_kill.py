"""The driver is killed again and again while it runs: counts continue, and nothing is there twice (scene 65)."""

import signal
from functools import partial
from pathlib import Path

import ottla.testing
from ottla.spark.pipelines.status_files import State, StateDirectory
from tests.spark.waiting import until
from tests.spark_slow.running_totals import NAME, create_topics, has_rows, send_orders, started, totals, totals_after

ROUNDS = 5
LOCALLY = ("--master", "local[2]")


def test_a_killed_driver_is_followed_by_one_that_counts_on(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "state")
    with ottla.testing.broker() as broker:
        create_topics(broker.bootstrap_servers)
        for round_number in range(ROUNDS):
            send_orders(broker.bootstrap_servers, round_number)
            driver = started(broker.bootstrap_servers, state, *LOCALLY)
            until(partial(has_rows, state, driver), seconds_max=300)
            driver.send_signal(signal.SIGKILL)
            driver.wait()
            killed = state.status(NAME)
            assert killed is not None and killed.is_gone
        assert started(broker.bootstrap_servers, state, *LOCALLY, "--once").wait() == 0
        ended = state.status(NAME)
        assert ended is not None and ended.state is State.FINISHED
        found = totals(broker.bootstrap_servers)
    assert found == totals_after(ROUNDS)
