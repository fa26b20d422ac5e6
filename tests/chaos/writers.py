"""Writers that keep a history: librdkafka producers in threads, each sending numbered records at a steady pace.

They never give up (no message time-out), as a patient application would not: after the last restart everything that was
sent must get its answer.
"""

import itertools
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from weakref import WeakSet

from confluent_kafka import KafkaError, Message, Producer

from tests.chaos.brokers import wait_until
from tests.chaos.checker import Promise, WriterHistory
from tests.chaos.payload import Numbered, encode

PACE_SECONDS: Final = 0.01
FLUSH_SECONDS_MAX: Final = 120.0
ABANDON_SECONDS_MAX: Final = 10.0
QUIET: Final[dict[str, Any]] = {
    "log_level": 0,
    "error_cb": lambda error: None,
}  # A broker that is gone is what we are here for.
PATIENT: Final[dict[str, Any]] = {
    "message.timeout.ms": 0,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    "queue.buffering.max.messages": 5_000,
    "linger.ms": 2,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """A producer's settings and what they promise."""

    name: str
    settings: dict[str, Any]
    promise: Promise
    is_answered: bool = True  # Otherwise the offset that librdkafka reports is its own guess.


EXACTLY_ONCE: Final = Guarantee(
    name="idempotent",
    settings={"enable.idempotence": True, "acks": "all"},
    promise=Promise(is_idempotent=True, keeps_order=True),
)
LEADER: Final = Guarantee(
    name="acks=1",
    settings={"acks": 1, "max.in.flight": 1},
    promise=Promise(is_idempotent=False, keeps_order=True),
)
NO_ANSWER: Final = Guarantee(
    name="acks=0",
    settings={"acks": 0},
    promise=Promise(is_idempotent=False, keeps_order=False),
    is_answered=False,
)

_numbers = itertools.count(1)
_running: "WeakSet[Writer]" = WeakSet()


class Writer(threading.Thread):
    """Sends until `stop`, then waits for every answer."""

    def __init__(
        self,
        *,
        bootstrap: str,
        topic: str,
        partitions: Sequence[int],
        guarantee: Guarantee,
        records_per_second: int,
        value_bytes: int = 500,
        settings: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(name=f"writer {guarantee.name}", daemon=True)
        self.guarantee = guarantee
        self.history = WriterHistory(writer=next(_numbers), promise=guarantee.promise)
        self._topic = topic
        self._partitions = itertools.cycle(partitions)
        self._records_per_turn = max(int(records_per_second * PACE_SECONDS), 1)
        self._value_bytes = value_bytes
        self._stopping = threading.Event()
        self._crash: BaseException | None = None
        self.acknowledged_count = 0
        self.slowest_answer_seconds = 0.0
        self.longest_gap_seconds = 0.0  # Between two answers of a partition that followed each other.
        self._answered_at: dict[int, float] = {}
        merged = {"bootstrap.servers": bootstrap, **QUIET, **PATIENT, **guarantee.settings, **(settings or {})}
        self._producer = Producer({**merged, "error_cb": self._on_error})
        _running.add(self)

    def run(self) -> None:
        try:
            while not self._stopping.is_set() and self.history.fatal is None:
                self._send_some()
                self._producer.poll(0)
                time.sleep(PACE_SECONDS)
            self._producer.flush(FLUSH_SECONDS_MAX)
        except BaseException as error:
            self._crash = error

    def _send_some(self) -> None:
        for _ in range(self._records_per_turn):
            if len(self._producer) >= PATIENT["queue.buffering.max.messages"]:
                return
            record = self.history.send(next(self._partitions))
            self._producer.produce(
                self._topic,
                encode(record, self._value_bytes),
                partition=record.partition,
                on_delivery=partial(self._on_delivery, record),
            )

    def _on_delivery(self, record: Numbered, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.history.failures.append(f"{record}: {error.name()}")
        elif self.guarantee.is_answered and (offset := message.offset()) is not None:
            self.history.acknowledge(record, offset)
            self.acknowledged_count += 1
            self.slowest_answer_seconds = max(self.slowest_answer_seconds, message.latency() or 0.0)
            now = time.monotonic()
            gap_seconds = now - self._answered_at.get(record.partition, now)
            self.longest_gap_seconds = max(self.longest_gap_seconds, gap_seconds)
            self._answered_at[record.partition] = now

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.history.fatal = error.str()

    def abandon(self) -> None:
        """Gives up what has no answer yet."""
        self._stopping.set()
        self._producer.purge()

    def stop(self) -> WriterHistory:
        """Stops sending; returns once every record has its answer."""
        self._stopping.set()
        self.join(FLUSH_SECONDS_MAX + 10)
        if self._crash is not None:
            raise self._crash
        unanswered = len(self._producer)
        assert not self.is_alive(), f"{self.name} hangs"
        assert unanswered == 0 or self.history.fatal, f"{self.name}: {unanswered} records got no answer"
        return self.history


def wait_for_progress(writers: Sequence[Writer]) -> None:
    """Until each has been answered again: librdkafka takes a second or so to find a broker that is back."""
    before = {writer: writer.acknowledged_count for writer in writers if writer.guarantee.is_answered}
    wait_until(
        lambda: all(writer.acknowledged_count > count for writer, count in before.items()), "all writers make progress"
    )


def abandon_all() -> None:
    """After a test that failed: its writers must not go on trying beside the next one."""
    for writer in list(_running):
        if writer.is_alive():
            writer.abandon()
            writer.join(ABANDON_SECONDS_MAX)
