"""End to end: from the moment a producer sends to the moment a consumer has the message, at a steady rate.

Producer and consumer share a process and its clock. The sender keeps to an absolute timetable of one tick a
millisecond and stamps each message when it really leaves, so that a late wake-up of ours is not counted against a
broker; a run whose sender fell behind is an error.
"""

import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from benchmarks.percentiles import percentile
from benchmarks.rounds import Goal, Metric, Round, Scenario
from ottla.client.bulk import LoadConsumer, LoadError, LoadProducer, MessageBlock, payload_at

MESSAGE_BYTES: Final = 1024
TICK_NANOSECONDS: Final = 1_000_000
TICKS: Final = 10_000
WARM_UP_TICKS: Final = 500
SILENCE_MS_MAX: Final = 10_000
SLOWDOWN_MAX: Final = 1.02

_STAMP: Final = struct.Struct("<q")


def end_to_end(messages_per_tick: int, settings: Mapping[str, str | int]) -> Callable[[Round], Mapping[str, float]]:
    def measure(turn: Round) -> Mapping[str, float]:
        topic = turn.create_topic()
        ticks = WARM_UP_TICKS + turn.scaled(TICKS)
        receiver = Receiver(turn.peer.bootstrap, topic, count=ticks * messages_per_tick)
        with _short_switch_interval():
            receiver.start()
            send_stamped(
                turn.peer.bootstrap, topic, ticks=ticks, messages_per_tick=messages_per_tick, settings=settings
            )
            receiver.join()
        if receiver.failure:
            raise LoadError(receiver.failure)
        latencies_ms = receiver.latencies_ms[WARM_UP_TICKS * messages_per_tick :]
        return {"p50": percentile(latencies_ms, 50), "p99": percentile(latencies_ms, 99)}

    return measure


class Receiver(threading.Thread):
    """Reads until every message is there, and notes how long each was under way."""

    def __init__(self, bootstrap: str, topic: str, *, count: int) -> None:
        super().__init__(daemon=True)
        self._consumer = LoadConsumer(bootstrap, topic)
        self._consumer.partition_count()
        self._consumer.start(0, 0)
        self._count = count
        self.latencies_ms: list[float] = []
        self.failure = ""

    def run(self) -> None:
        with self._consumer as consumer:
            while len(self.latencies_ms) < self._count:
                addresses = consumer.read_arrived(timeout_ms=SILENCE_MS_MAX)
                now = time.perf_counter_ns()
                if not addresses:
                    self.failure = f"{len(self.latencies_ms)} of {self._count} messages arrived"
                    return
                for address in addresses:
                    (sent_at,) = _STAMP.unpack(payload_at(address, first_bytes=_STAMP.size))
                    self.latencies_ms.append((now - sent_at) / 1e6)
                consumer.release()


def send_stamped(
    bootstrap: str, topic: str, *, ticks: int, messages_per_tick: int, settings: Mapping[str, str | int] | None = None
) -> None:
    block = MessageBlock([bytes(MESSAGE_BYTES)], length=messages_per_tick)
    with LoadProducer(bootstrap, topic, config={"linger.ms": 0, **(settings or {})}) as producer:
        producer.partition_count()
        started = time.perf_counter_ns()
        for tick in range(ticks):
            ahead = started + tick * TICK_NANOSECONDS - time.perf_counter_ns()
            if ahead > 0:
                time.sleep(ahead / 1e9)
            block.overwrite(0, _STAMP.pack(time.perf_counter_ns()))
            producer.send(block, messages_per_tick, copy=True)
        slowdown = (time.perf_counter_ns() - started) / (ticks * TICK_NANOSECONDS)
        producer.wait_delivered()
    if slowdown > SLOWDOWN_MAX:
        raise LoadError(f"the sender took {slowdown:.2f} times its time: the rate was not the one asked for")


@contextmanager
def _short_switch_interval() -> Iterator[None]:
    """Lets the two threads take turns within a tenth of a tick."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _metrics(rate: str) -> tuple[Metric, Metric]:
    return (
        Metric(key="p50", title=f"end to end, {rate}/s of 1 KB, p50", unit="ms"),
        Metric(key="p99", title="  p99", unit="ms", goal=Goal(ratio_max=0.5)),
    )


SCENARIOS: Final = (
    Scenario(name="end-to-end-1000", metrics=_metrics("1,000"), measure=end_to_end(1, {})),
    Scenario(name="end-to-end-20000", metrics=_metrics("20,000"), measure=end_to_end(20, {})),
)
