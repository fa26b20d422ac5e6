"""The second half of `make demo`: orders come in, two pipelines on Spark count them into a topic and keep them in a table.

Both are YAML files (demo_pipelines/), run by `ottla pipeline run` in one driver, exactly once. At the end what came out
is set against what went in.
"""

import os
import random
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.table import Table

import ottla
from ottla.client.serializers import from_json, to_json
from ottla.spark.pipelines.status_files import StateDirectory

ORDERS = int(os.environ.get("OTTLA_DEMO_ORDERS", "100000"))
STREAM_SECONDS = 20.0
GIVE_UP_SECONDS = 240.0
PARTITIONS = 4
USERS = ("franz", "ottla", "max", "milena", "felice", "dora")
CLOSING_ORDER = -1
CLOSED_AFTER_MS = 60_000
PIPELINES = Path(__file__).parent / "demo_pipelines"
NAMES = ("orders-per-second", "all-orders")


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """Of orders, wherever they were counted."""

    orders: int
    distinct: int
    cents: int

    @classmethod
    def of(cls, amounts: dict[int, int], count: int) -> Self:
        return cls(orders=count, distinct=len(amounts), cents=sum(amounts.values()))


def show(console: Console, bootstrap_servers: str, directory: Path) -> bool:
    """Whether everything came out as it went in."""
    with ottla.Admin(bootstrap_servers=bootstrap_servers) as admin:
        admin.create_topic("orders", PARTITIONS)
        admin.create_topic("orders-per-second", 1)
    console.print(
        f"\n[bold]A stream of {ORDERS:,} orders[/], and two pipelines on Spark, each a YAML file: one counts the orders of"
        " each second into a topic, one keeps every order in Parquet files. Spark starts, that takes some seconds:\n"
    )
    stream = OrderStream(bootstrap_servers)
    stream.start()
    driver = subprocess.Popen(command(directory), env=environment(bootstrap_servers, directory))
    try:
        came_out = wait_for_all(bootstrap_servers, directory, driver)
        for name in NAMES:
            StateDirectory(directory / "state").ask_to_stop(name)
        driver.wait(timeout=GIVE_UP_SECONDS)
    finally:
        driver.kill()
    if came_out is None:
        console.print((directory / "state" / "spark.log").read_text(), markup=False)
        return False
    stream.join()
    rows = rows_in(directory / "orders")
    console.print(proof(stream.total, rows, came_out))
    return rows == stream.total and (came_out.orders, came_out.cents) == (stream.total.orders, stream.total.cents)


def command(directory: Path) -> list[str]:
    files = [str(PIPELINES / f"{name}.yaml") for name in NAMES]
    return [sys.executable, "-m", "ottla.cli.main", "pipeline", "run", *files, "--state", str(directory / "state"),
            "--master", "local[2]", "--conf", "spark.driver.memory=1g"]  # fmt: skip


def environment(bootstrap_servers: str, directory: Path) -> dict[str, str]:
    return {
        **os.environ,
        "OTTLA_BOOTSTRAP_SERVERS": bootstrap_servers,
        "OTTLA_DEMO_ORDERS_PATH": str(directory / "orders"),
    }


class OrderStream(threading.Thread):
    """Orders at a steady rate. The last one, a minute later by its time, ends the seconds before it."""

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(name="orders", daemon=True)
        self._bootstrap_servers = bootstrap_servers
        self._amounts: dict[int, int] = {}

    @property
    def total(self) -> Total:
        return Total.of(self._amounts, len(self._amounts))

    def run(self) -> None:
        chance = random.Random(1892)
        started = time.monotonic()
        with ottla.Producer(bootstrap_servers=self._bootstrap_servers, value_serializer=to_json) as producer:
            for number in range(ORDERS):
                user = chance.choice(USERS)
                cents = int(chance.lognormvariate(8, 1))
                self._amounts[number] = cents
                producer.send("orders", {"id": number, "user": user, "cents": cents}, key=user)
                ahead = started + STREAM_SECONDS * number / ORDERS - time.monotonic()
                if ahead > 0.01:
                    time.sleep(ahead)
            producer.flush()
            closing_ms = int(time.time() * 1000) + CLOSED_AFTER_MS
            for partition in range(PARTITIONS):
                producer.send("orders", {"id": CLOSING_ORDER, "cents": 0}, partition=partition, timestamp_ms=closing_ms)


def wait_for_all(bootstrap_servers: str, directory: Path, driver: "subprocess.Popen[bytes]") -> Total | None:
    """What the counting pipeline has written, once it is everything; None if that does not come to be."""
    status = StateDirectory(directory / "state")
    deadline = time.monotonic() + GIVE_UP_SECONDS
    orders = cents = 0
    with ottla.Consumer(
        bootstrap_servers=bootstrap_servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        value_deserializer=from_json,
    ) as consumer:
        consumer.assign(consumer.partitions_for("orders-per-second"))
        while time.monotonic() < deadline and driver.poll() is None:
            for record in consumer.poll(timeout_ms=500):
                orders += record.value["orders"]
                cents += record.value["cents"]
            kept = status.status("all-orders")
            if orders >= ORDERS and kept is not None and kept.rows_total >= ORDERS + PARTITIONS:
                return Total(orders=orders, distinct=orders, cents=cents)
    return None


def rows_in(path: Path) -> Total:
    import pyarrow.dataset

    rows = pyarrow.dataset.dataset(path, format="parquet").to_table(columns=["id", "cents"])
    amounts = dict(zip(rows["id"].to_pylist(), rows["cents"].to_pylist(), strict=True))
    return Total.of(amounts, rows.num_rows)


def proof(went_in: Total, rows: Total, counted: Total) -> Table:
    table = Table(title="\nIn and out", title_justify="left")
    table.add_column("")
    for name in ("orders", "of them distinct", "amount"):
        table.add_column(name, justify="right")
    table.add_column("")
    for name, total, distinct in (
        ("written to the topic orders", went_in, f"{went_in.distinct:,}"),
        ("rows in the Parquet table", rows, f"{rows.distinct:,}"),
        ("counted into the topic orders-per-second", counted, ""),
    ):
        is_same = (total.orders, total.cents) == (went_in.orders, went_in.cents)
        verdict = "[green]✓[/]" if is_same else "[bold red]differs[/]"
        table.add_row(name, f"{total.orders:,}", distinct, f"{total.cents / 100:,.2f}", verdict)
    return table
