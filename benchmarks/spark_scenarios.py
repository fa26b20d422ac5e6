"""What Ottla's data source and sink are measured at beside Spark's official connector: reading, copying, latency, memory.

Both have the same broker, the same data of four partitions and `local[2]`; every measurement is a driver of its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.latency import Receiver, send_stamped
from benchmarks.peers import Ottla
from benchmarks.percentiles import percentile
from benchmarks.rounds import Goal, Metric, Round, Scenario
from benchmarks.spark_process import SparkProcess
from ottla.client.load import LoadError, consume_load, produce_load

KILOBYTE: Final = 1024
PARTITIONS: Final = 4
READ_1K: Final = 1_000_000
READ_100B: Final = 5_000_000
COPIED_1K: Final = 600_000
COPIED_100B: Final = 3_000_000
WARM_UP_COUNT: Final = 50_000
LATENCY_TICKS: Final = 30_000  # One row each, a millisecond apart.
LATENCY_WARM_UP_TICKS: Final = 10_000

OFFICIAL: Final = "Spark's connector"
CONNECTORS: Final = (OFFICIAL, Ottla.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn(Round):
    """One connector's turn in one round; the broker is the same for both."""

    connector: str

    def job(self, name: str, **more: Any) -> dict[str, Any]:
        format_name = "ottla" if self.connector == Ottla.name else "kafka"
        return {"name": name, "format": format_name, "bootstrap": self.peer.bootstrap, **more}

    def own_topic(self, label: str, *, partitions: int = PARTITIONS) -> str:
        whose = "ours" if self.connector == Ottla.name else "theirs"
        return self.create_topic(f"{label}-{whose}-{self.index}", partitions=partitions)

    def filled_topic(self, message_bytes: int, count: int) -> str:
        """Filled by whoever comes first, read by all."""
        label = f"of-{count}"
        if self.index == 0 and self.connector == CONNECTORS[0]:
            topic = self.create_topic(label, partitions=PARTITIONS)
            produce_load(self.peer.bootstrap, topic, message_bytes=message_bytes, count=count, partition=None)
        return self.topic_name(label)


Measure = Callable[[Turn], Mapping[str, float]]


def _read(message_bytes: int, full_count: int) -> Measure:
    def measure(turn: Turn) -> Mapping[str, float]:
        count = turn.scaled(full_count)
        topic = turn.filled_topic(message_bytes, count)
        with SparkProcess(turn.job("read_to_nowhere", topic=topic, count=count)) as driver:
            seconds = driver.result()["seconds"]
        return {"rate": count / seconds, "memory": driver.memory_bytes_max / 1e6}

    return measure


def _copy(message_bytes: int, full_count: int) -> Measure:
    def measure(turn: Turn) -> Mapping[str, float]:
        count = turn.scaled(full_count)
        plain = _copied(turn, message_bytes, count, "at-least-once")
        if turn.connector == OFFICIAL:
            return plain
        exact = _copied(turn, message_bytes, count, "exactly-once", guarantee="exactlyOnce")
        return {**plain, "exact": exact["rate"], "cost": (1 - exact["rate"] / plain["rate"]) * 100}

    return measure


def _copied(turn: Turn, message_bytes: int, count: int, label: str, **sink_options: str) -> Mapping[str, float]:
    """A reader then counts what is committed: the figure stands for all of it."""
    target = turn.own_topic(label)
    job = turn.job(
        "copy",
        topic=turn.filled_topic(message_bytes, count),
        target=target,
        warm_up_topic=turn.filled_topic(message_bytes, turn.scaled(WARM_UP_COUNT)),
        warm_up_target=turn.own_topic(f"{label}-warm-up"),
        sink_options=sink_options,
    )
    with SparkProcess(job) as driver:
        seconds = driver.result()["seconds"]
    committed = {"isolation.level": "read_committed"}
    consume_load(turn.peer.bootstrap, target, count=count, partition=None, config=committed)
    return {"rate": count / seconds, "memory": driver.memory_bytes_max / 1e6}


def _latency(turn: Turn) -> Mapping[str, float]:
    topic, target = turn.own_topic("in", partitions=1), turn.own_topic("out", partitions=1)
    ticks = LATENCY_WARM_UP_TICKS + turn.scaled(LATENCY_TICKS)
    with SparkProcess(turn.job("follow", topic=topic, target=target, sink_options={})) as driver:
        driver.wait_ready()
        receiver = Receiver(turn.peer.bootstrap, target, count=ticks)
        receiver.start()
        send_stamped(turn.peer.bootstrap, topic, ticks=ticks, messages_per_tick=1)
        receiver.join()
        if receiver.failure:
            raise LoadError(receiver.failure)
        batch_ms = driver.result()["batch_ms"]
    latencies_ms = receiver.latencies_ms[LATENCY_WARM_UP_TICKS:]
    return {
        "p50": percentile(latencies_ms, 50),
        "p99": percentile(latencies_ms, 99),
        "batch": batch_ms,
        "memory": driver.memory_bytes_max / 1e6,
    }


def _scenario(name: str, measure: Measure, *metrics: Metric) -> Scenario:
    memory = Metric(key="memory", title="  most memory of the driver and its workers", unit="MB")
    return Scenario(name=name, metrics=(*metrics, memory), measure=measure, rival=OFFICIAL)


def _source_metric(size: str, goal: Goal) -> Metric:
    return Metric(key="rate", title=f"source → noop, {size}", unit="rows/s", goal=goal)


def _copy_metrics(size: str, goal: Goal) -> tuple[Metric, ...]:
    return (
        Metric(key="rate", title=f"topic → topic, {size}, at least once", unit="rows/s", goal=goal),
        Metric(key="exact", title="  exactly once", unit="rows/s"),
        Metric(key="cost", title="  its cost", unit="%", goal=Goal(ours_max=20.0)),
    )


SCENARIOS: Final = (
    _scenario("spark-source-100b", _read(100, READ_100B), _source_metric("100 B", Goal(ratio_min=1.5))),
    _scenario("spark-source-1k", _read(KILOBYTE, READ_1K), _source_metric("1 KB", Goal(ratio_min=1.0))),
    _scenario("spark-copy-100b", _copy(100, COPIED_100B), *_copy_metrics("100 B", Goal(ratio_min=1.0))),
    _scenario("spark-copy-1k", _copy(KILOBYTE, COPIED_1K), *_copy_metrics("1 KB", Goal(ratio_min=2.0))),
    _scenario(
        "spark-latency",
        _latency,
        Metric(key="p50", title="topic → topic, 1,000 rows/s of 1 KB, p50", unit="ms"),
        Metric(key="p99", title="  p99", unit="ms"),
        Metric(key="batch", title="  micro-batch", unit="ms"),
    ),
)
