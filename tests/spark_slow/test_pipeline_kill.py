"""The driver is killed again and again while it runs: counts continue, and nothing is there twice (scene 65)."""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import ottla.testing
from ottla.client import Admin, Consumer, Producer
from ottla.client.serializers import from_json, from_utf8, to_json
from ottla.spark.pipelines.status_files import State, StateDirectory
from tests.spark.waiting import until

EXAMPLE = Path(__file__).parents[2] / "examples" / "pipelines" / "running-totals.yaml"
USERS = ("anna", "bela", "carl")
ORDERS_A_ROUND = 300
ROUNDS = 5
SILENCE_MS = 5_000


def test_a_killed_driver_is_followed_by_one_that_counts_on(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "state")
    with ottla.testing.broker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            for topic in ("orders", "running-totals"):
                admin.create_topic(topic, 2)
        for round_number in range(ROUNDS):
            send_orders(broker.bootstrap_servers, round_number)
            driver = started(broker.bootstrap_servers, state)
            until(partial(has_rows, state, driver.pid), seconds_max=300)
            driver.send_signal(signal.SIGKILL)
            driver.wait()
            killed = state.status("running-totals")
            assert killed is not None and killed.is_gone
        assert started(broker.bootstrap_servers, state, "--once").wait() == 0
        ended = state.status("running-totals")
        assert ended is not None and ended.state is State.FINISHED
        found = totals(broker.bootstrap_servers)
    expected = ROUNDS * ORDERS_A_ROUND // len(USERS)
    assert found == {user: list(range(1, expected + 1)) for user in USERS}


def has_rows(state: StateDirectory, pid: int) -> bool:
    status = state.status("running-totals")
    return status is not None and status.pid == pid and status.rows_total > 0


def started(servers: str, state: StateDirectory, *options: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "ottla.cli.main", "pipeline", "run", str(EXAMPLE), "--master", "local[2]"]
    environment = {**os.environ, "OTTLA_BOOTSTRAP_SERVERS": servers}
    return subprocess.Popen([*command, "--state", str(state.path), *options], env=environment)


def send_orders(servers: str, round_number: int) -> None:
    with Producer(bootstrap_servers=servers, value_serializer=to_json) as producer:
        for number in range(ORDERS_A_ROUND):
            order = {"id": round_number * ORDERS_A_ROUND + number, "amount": 1}
            producer.send("orders", order, key=USERS[number % len(USERS)])


def totals(servers: str) -> dict[str, list[int]]:
    """Of each user the counts, in the order in which they were written."""
    found: dict[str, list[int]] = {}
    with Consumer(
        bootstrap_servers=servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        key_deserializer=from_utf8,
        value_deserializer=from_json,
    ) as consumer:
        consumer.assign(consumer.partitions_for("running-totals"))
        # The end of a partition is a transaction's marker, which no position passes: silence is the end.
        while records := consumer.poll(timeout_ms=SILENCE_MS):
            for record in records:
                found.setdefault(record.key, []).append(record.value["count"])
    return found
