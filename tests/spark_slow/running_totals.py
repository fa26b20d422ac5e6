"""The example `running-totals`, run as users run it: `ottla pipeline run` as a process, and what must come of it.

Every order adds one to its user's count, which is state of Spark, and writes it: counts that go 1, 2, 3 … up to the
number of orders are proof that no order was lost or counted twice, whatever died meanwhile.
"""

import os
import subprocess
import sys
from pathlib import Path

from ottla.client import Admin, Consumer, Producer
from ottla.client.serializers import from_json, from_utf8, to_json
from ottla.spark.pipelines.status_files import StateDirectory

NAME = "running-totals"
EXAMPLE = Path(__file__).parents[2] / "examples" / "pipelines" / f"{NAME}.yaml"
USERS = ("anna", "bela", "carl")
ORDERS_A_ROUND = 300
SILENCE_MS = 5_000


def create_topics(servers: str) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        for topic in ("orders", NAME):
            admin.create_topic(topic, 2)


def send_orders(servers: str, round_number: int) -> None:
    with Producer(bootstrap_servers=servers, value_serializer=to_json) as producer:
        for number in range(ORDERS_A_ROUND):
            order = {"id": round_number * ORDERS_A_ROUND + number, "amount": 1}
            producer.send("orders", order, key=USERS[number % len(USERS)])


def started(servers: str, state: StateDirectory, *options: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "ottla.cli.main", "pipeline", "run", str(EXAMPLE), "--state", str(state.path)]
    return subprocess.Popen([*command, *options], env={**os.environ, "OTTLA_BOOTSTRAP_SERVERS": servers})


def rows_of(state: StateDirectory, driver: "subprocess.Popen[bytes]") -> int:
    """What this driver has read so far."""
    assert driver.poll() is None, "the driver has ended"
    status = state.status(NAME)
    return status.rows_total if status is not None and status.pid == driver.pid else 0


def has_rows(state: StateDirectory, driver: "subprocess.Popen[bytes]") -> bool:
    return rows_of(state, driver) > 0


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
        consumer.assign(consumer.partitions_for(NAME))
        # The end of a partition is a transaction's marker, which no position passes: silence is the end.
        while records := consumer.poll(timeout_ms=SILENCE_MS):
            for record in records:
                found.setdefault(record.key, []).append(record.value["count"])
    return found


def totals_after(rounds: int) -> dict[str, list[int]]:
    return {user: list(range(1, rounds * ORDERS_A_ROUND // len(USERS) + 1)) for user in USERS}
