"""The pipelines of examples/pipelines, each against a known answer, with late data and over restarts.

Their topics get a prefix here, because all tests share a broker. Times are minutes after T0, which begins a window.
"""

import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from ottla.spark.pipelines.definition import Pipeline
from ottla.spark.pipelines.failures import BackOff
from ottla.spark.pipelines.status_files import State
from tests.spark.brokers import AnyBroker
from tests.spark.pipeline_runs import Event, consumed, created, pipelines, produced, ran

EXAMPLES: Final = Path(__file__).parents[2] / "examples" / "pipelines"
T0_MS: Final = 1_700_000_100_000 // 300_000 * 300_000


def minute_ms(minutes: float) -> int:
    return T0_MS + round(minutes * 60_000)


def example(name: str, directory: Path, broker: AnyBroker, **environment: str) -> Sequence[Pipeline]:
    text = (EXAMPLES / f"{name}.yaml").read_text()
    for module in EXAMPLES.glob(f"{name.replace('-', '_')}.py"):
        shutil.copy(module, directory)
    text = text.replace("topic: ", f"topic: {name}.").replace("Topic: ", f"Topic: {name}.")
    return pipelines(directory, broker, text, **environment)


def run(spark: Any, directory: Path, found: Sequence[Pipeline]) -> int:
    """Gives how many records were read. Spark gives a Python worker ten seconds to start, which a busy machine may miss."""
    [ended] = ran(spark, directory, found, back_off=BackOff(first_s=0.1, restarts_max=2))
    assert ended.state is State.FINISHED, ended.reason
    return ended.rows_total


def order(user: str, minutes: float, amount: float, id: int = 0) -> Event:
    return user, {"id": id, "user": user, "amount": amount}, minute_ms(minutes)


def test_high_value_order_counts(spark: Any, broker: AnyBroker, tmp_path: Path) -> None:
    """Scenes 62, 65 and 22: windows by event time over three runs, with events out of order, late, and too late."""
    topic, counts = "high-value-order-counts.orders", "high-value-order-counts.high-value-order-counts"
    created(broker, topic, counts)
    found = example("high-value-order-counts", tmp_path, broker)
    produced(
        broker,
        topic,
        [
            order("anna", 0.5, 150),
            order("anna", 1, 50),  # Not high.
            order("bela", 2, 101),
            order("anna", 6, 300),  # The next window.
            order("anna", 3, 200),  # Out of order.
        ],
    )
    run(spark, tmp_path, found)
    assert consumed(spark, broker, counts) == []  # No window is certain yet.
    produced(broker, topic, [order("anna", 4.9, 120), order("bela", 20, 999)])  # Late, and what moves the time on.
    run(spark, tmp_path, found)
    produced(broker, topic, [order("anna", 4, 777), order("carl", 36, 110)])  # Too late: its window is written.
    run(spark, tmp_path, found)
    found_counts = {(key, value["start"]): value["count"] for key, value in consumed(spark, broker, counts)}
    assert found_counts == {
        ("anna", iso(0)): 3,
        ("bela", iso(0)): 1,
        ("anna", iso(5)): 1,
        ("bela", iso(20)): 1,
    }


def iso(minutes: int) -> str:
    return (
        datetime.fromtimestamp(minute_ms(minutes) / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def test_orders_to_parquet(spark: Any, broker: AnyBroker, tmp_path: Path) -> None:
    """Scene 63: five hundred at a time, each once, over a restart; what cannot be read goes elsewhere."""
    topic, letters = "orders-to-parquet.orders", "orders-to-parquet.orders.unreadable"
    created(broker, topic, letters)
    found = example("orders-to-parquet", tmp_path, broker, ORDERS_PATH=str(tmp_path / "orders"))
    produced(broker, topic, [order("anna", n / 100, n, id=n) for n in range(1, 801)])
    produced(broker, topic, [("carl", "no order", minute_ms(0))])
    [ended] = ran(spark, tmp_path, found)
    assert (ended.state, ended.batch) == (State.FINISHED, 1)
    produced(broker, topic, [order("bela", 24 * 60, n, id=n) for n in range(801, 901)])
    run(spark, tmp_path, found)
    rows = spark.read.parquet(str(tmp_path / "orders")).collect()
    assert sorted(row.id for row in rows) == list(range(1, 901))
    assert len({row.day for row in rows}) == 2
    assert consumed(spark, broker, letters) == [("carl", "no order")]


def test_paid_orders(spark: Any, broker: AnyBroker, tmp_path: Path) -> None:
    """A payment may come first, late, or in the next run; not too long after its order."""
    orders, payments, paid = (f"paid-orders.{name}" for name in ("orders", "payments", "paid-orders"))
    created(broker, orders, payments, paid)
    found = example("paid-orders", tmp_path, broker)
    produced(broker, orders, [(None, {"id": n, "amount": 10 * n}, minute_ms(n)) for n in (1, 2, 3)])
    produced(broker, payments, [(None, {"order": 4, "method": "early"}, minute_ms(5))])
    produced(broker, payments, [(None, {"order": 1, "method": "card"}, minute_ms(3))])
    run(spark, tmp_path, found)
    produced(broker, orders, [(None, {"id": 4, "amount": 40}, minute_ms(4))])
    produced(broker, payments, [(None, {"order": 2, "method": "cash"}, minute_ms(8))])
    produced(broker, payments, [(None, {"order": 3, "method": "slow"}, minute_ms(18.5))])
    run(spark, tmp_path, found)
    assert [(key, value["amount"], value["method"]) for key, value in consumed(spark, broker, paid)] == [
        ("1", 10, "card"),
        ("2", 20, "cash"),
        ("4", 40, "early"),
    ]


def test_orders_with_customers(spark: Any, broker: AnyBroker, tmp_path: Path) -> None:
    """A customer who moves or is deleted is another one for the orders that come after."""
    orders, customers, joined = (
        f"orders-with-customers.{name}" for name in ("orders", "shop.public.customers", "orders-with-customers")
    )
    created(broker, orders, joined)
    created(broker, customers, **{"cleanup.policy": "compact"})
    found = example("orders-with-customers", tmp_path, broker)

    def change(id: int, op: str, **after: str) -> Event:
        return f'{{"id":{id}}}', {"op": op, "after": {"id": id, **after} if after else None}, minute_ms(0)

    produced(broker, customers, [change(1, "c", name="Anna", city="Praha"), change(2, "r", name="Bela", city="Pest")])
    produced(broker, orders, [(None, {"id": 10 + n, "customer": n, "amount": 5}, minute_ms(n)) for n in (1, 2, 3)])
    run(spark, tmp_path, found)
    produced(broker, customers, [change(1, "u", name="Anna", city="Zürau"), change(2, "d"), ('{"id":2}', None, T0_MS)])
    produced(broker, orders, [(None, {"id": 20 + n, "customer": n, "amount": 5}, minute_ms(n)) for n in (1, 2)])
    run(spark, tmp_path, found)
    assert [(key, value["name"], value["city"]) for key, value in consumed(spark, broker, joined)] == [
        ("11", "Anna", "Praha"),
        ("12", "Bela", "Pest"),
        ("13", None, None),
        ("21", "Anna", "Zürau"),
        ("22", None, None),
    ]


def test_running_totals(spark: Any, broker: AnyBroker, tmp_path: Path) -> None:
    """State in RocksDB, recovered by the next run from the checkpoint: counts continue."""
    orders, totals = "running-totals.orders", "running-totals.running-totals"
    created(broker, orders, totals)
    found = example("running-totals", tmp_path, broker)
    produced(broker, orders, [order("anna", 0, 10, id=1), order("bela", 0, 7, id=2), order("anna", 1, 5, id=3)])
    run(spark, tmp_path, found)
    produced(broker, orders, [order("anna", 2, 1, id=4)])
    run(spark, tmp_path, found)
    assert [(key, value["id"], value["count"], value["total"]) for key, value in consumed(spark, broker, totals)] == [
        ("anna", 1, 1, 10),
        ("anna", 3, 2, 15),
        ("anna", 4, 3, 16),
        ("bela", 2, 1, 7),
    ]


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda file: file.stem)
def test_every_example_has_a_test(file: Path) -> None:
    assert f"test_{file.stem.replace('-', '_')}" in globals()
