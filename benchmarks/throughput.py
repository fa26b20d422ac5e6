"""How many messages a second: one partition and many, written and read, plain and compressed, one reader and five.

Unless a scenario says otherwise: one partition, acks=1, no compression, batches of up to 1 MB with `linger.ms=5`.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final, Self

from benchmarks.payloads import event_payloads
from benchmarks.rounds import Goal, Metric, Round, Scenario
from ottla.client.bulk import (
    MESSAGES_PER_CALL,
    LoadConsumer,
    LoadError,
    LoadProducer,
    MessageBlock,
    message_at,
)
from ottla.client.load import LoadResult, consume_load, produce_load

KILOBYTE: Final = 1024
COUNT_1K: Final = 1_000_000
COUNT_100B: Final = 4_000_000
COUNT_COMPRESSED: Final = 500_000
COUNT_MANY: Final = 300_000

FAN_OUT_READERS: Final = 5
FAN_OUT_MESSAGES_PER_SECOND: Final = 112_305  # of 1 KB: the 115 MB/s of the sizing example
FAN_OUT_SECONDS: Final = 5
CATCH_UP_SECONDS_MAX: Final = 30.0


def _produce(
    message_bytes: int, full_count: int, *, codec: str | None = None
) -> Callable[[Round], Mapping[str, float]]:
    def measure(turn: Round) -> Mapping[str, float]:
        topic = turn.create_topic()
        with _CpuCost(turn) as cost:
            load = _fill(turn, topic, message_bytes, turn.scaled(full_count), codec)
        return {"rate": load.messages_per_second, "cpu": cost.seconds_per_gb(load)}

    return measure


def _consume(
    message_bytes: int, full_count: int, *, codec: str | None = None
) -> Callable[[Round], Mapping[str, float]]:
    def measure(turn: Round) -> Mapping[str, float]:
        count = turn.scaled(full_count)
        topic = turn.topic_of_all_rounds(lambda name: _fill(turn, name, message_bytes, count, codec))
        with _CpuCost(turn) as cost:
            load = consume_load(turn.peer.bootstrap, topic, count=count)
        return {"rate": load.messages_per_second, "cpu": cost.seconds_per_gb(load)}

    return measure


def _fill(turn: Round, topic: str, message_bytes: int, count: int, codec: str | None) -> LoadResult:
    return produce_load(
        turn.peer.bootstrap,
        topic,
        message_bytes=message_bytes,
        count=count,
        payloads=event_payloads(message_bytes) if codec else None,
        config={"compression.type": codec or "none"},
    )


class _CpuCost:
    """Processor time of the broker between entering and leaving."""

    def __init__(self, turn: Round) -> None:
        self._process = turn.peer.process
        self.seconds = 0.0

    def __enter__(self) -> Self:
        self._before = self._process.cpu_seconds()
        return self

    def __exit__(self, *exception: object) -> None:
        self.seconds = self._process.cpu_seconds() - self._before

    def seconds_per_gb(self, load: LoadResult) -> float:
        return self.seconds / (load.bytes / 1e9)


def _produce_to_many_partitions(turn: Round) -> Mapping[str, float]:
    topic = turn.create_topic(partitions=turn.scaled(1_000, at_least=20))
    with _CpuCost(turn) as cost:
        load = produce_load(
            turn.peer.bootstrap, topic, message_bytes=KILOBYTE, count=turn.scaled(COUNT_MANY), partition=None
        )
    return {"rate": load.messages_per_second, "cpu": cost.seconds_per_gb(load)}


class _TailReader(threading.Thread):
    """Follows the end of a partition and notes how far behind it ever was, in messages."""

    def __init__(self, bootstrap: str, topic: str, *, count: int, over: threading.Event) -> None:
        super().__init__(daemon=True)
        self._consumer = LoadConsumer(bootstrap, topic)
        self._consumer.start(0, 0)
        self._count = count
        self._over = over
        self.read_count = 0
        self.finished_at = 0.0
        self.failure = ""

    def run(self) -> None:
        with self._consumer as consumer:
            while self.read_count < self._count and not self._over.is_set():
                addresses = consumer.read_arrived(timeout_ms=1_000)
                if not addresses:
                    continue
                last_offset = message_at(addresses[-1]).offset
                consumer.release()
                self.read_count += len(addresses)
                if last_offset + 1 != self.read_count:
                    self.failure = f"offset {last_offset} is message {self.read_count}"
                    return
            self.finished_at = time.perf_counter()


def _fan_out(turn: Round) -> Mapping[str, float]:
    topic = turn.create_topic()
    seconds = 1 if turn.quick else FAN_OUT_SECONDS
    rate = turn.scaled(FAN_OUT_MESSAGES_PER_SECOND)
    count = rate * seconds
    over = threading.Event()
    readers = [_TailReader(turn.peer.bootstrap, topic, count=count, over=over) for _ in range(FAN_OUT_READERS)]
    try:
        for reader in readers:
            reader.start()
        with _CpuCost(turn) as cost:
            started = time.perf_counter()
            largest_lag = _produce_paced(turn.peer.bootstrap, topic, rate=rate, count=count, readers=readers)
            for reader in readers:
                reader.join(CATCH_UP_SECONDS_MAX)
    finally:
        over.set()
    for reader in readers:
        if reader.failure or not reader.finished_at:
            raise LoadError(reader.failure or f"a reader has {reader.read_count} of {count} messages")
    elapsed = max(reader.finished_at for reader in readers) - started
    return {
        "read": FAN_OUT_READERS * count * KILOBYTE / elapsed / 1e6,
        "lag": largest_lag,
        "busy": cost.seconds / elapsed,
    }


def _produce_paced(bootstrap: str, topic: str, *, rate: int, count: int, readers: list[_TailReader]) -> int:
    """Sends at a steady rate; returns the largest distance any reader ever had from the last message sent."""
    tick_seconds = 0.005
    block = MessageBlock([b"o" * KILOBYTE], length=MESSAGES_PER_CALL)
    largest_lag = 0
    with LoadProducer(bootstrap, topic) as producer:
        producer.partition_count()
        started = time.perf_counter()
        while producer.sent_count < count:
            due = min(count, int((time.perf_counter() - started) * rate))
            share = min(due - producer.sent_count, MESSAGES_PER_CALL)
            if share > 0:
                producer.send(block, share)
            largest_lag = max(largest_lag, producer.sent_count - min(reader.read_count for reader in readers))
            time.sleep(tick_seconds)
        producer.wait_delivered()
    return largest_lag


def _metrics(title: str, *, rate: Goal | None = None, cpu: Goal | None = None, verb: str) -> tuple[Metric, Metric]:
    return (
        Metric(key="rate", title=title, unit="messages/s", goal=rate),
        Metric(key="cpu", title=f"  broker CPU per GB {verb}", unit="s", goal=cpu),
    )


SCENARIOS: Final = (
    Scenario(
        name="produce-1k",
        metrics=_metrics(
            "produce 1 KB", rate=Goal(ratio_min=1.6, ours_min=1_000_000), cpu=Goal(ratio_max=0.5), verb="produced"
        ),
        measure=_produce(KILOBYTE, COUNT_1K),
    ),
    Scenario(
        name="produce-100b",
        metrics=_metrics("produce 100 B", rate=Goal(ratio_min=1.2), cpu=Goal(ratio_max=0.5), verb="produced"),
        measure=_produce(100, COUNT_100B),
    ),
    Scenario(
        name="consume-1k",
        metrics=_metrics("consume 1 KB", rate=Goal(ratio_min=1.0), verb="consumed"),
        measure=_consume(KILOBYTE, COUNT_1K),
    ),
    Scenario(
        name="consume-100b",
        metrics=_metrics("consume 100 B", rate=Goal(ratio_min=0.9), verb="consumed"),
        measure=_consume(100, COUNT_100B),
    ),
    *(
        Scenario(
            name=f"{verb}-1k-{codec}",
            metrics=_metrics(f"{verb} 1 KB, {codec}", verb=f"{verb}d"),
            measure=measure(KILOBYTE, COUNT_COMPRESSED, codec=codec),
        )
        for codec in ("lz4", "zstd")
        for verb, measure in (("produce", _produce), ("consume", _consume))
    ),
    Scenario(
        name="produce-1000-partitions",
        metrics=_metrics("produce 1 KB to 1,000 partitions", verb="produced"),
        measure=_produce_to_many_partitions,
    ),
    Scenario(
        name="fan-out",
        metrics=(
            Metric(key="read", title="five readers of 115 MB/s, all together", unit="MB/s"),
            Metric(key="lag", title="  furthest any reader fell behind", unit="messages"),
            Metric(key="busy", title="  broker CPU", unit="cores"),
        ),
        measure=_fan_out,
    ),
)
