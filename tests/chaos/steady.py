"""Well-behaved clients: a producer and a consumer at a steady pace, whose rates are taken window by window."""

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.testing import Broker
from tests.chaos.checker import Verdict, judge
from tests.chaos.readers import Tail, read_all
from tests.chaos.writers import EXACTLY_ONCE, Writer

TOPIC: Final = "steady"
RECORDS_PER_SECOND: Final = 2_000
WARM_UP_SECONDS: Final = 1.0
RATE_KEPT_MIN: Final = 0.6
WINDOWS_MAX: Final = 4


class Rates(NamedTuple):
    """Records a second over a window, and how long an acknowledgement took at worst."""

    written: float
    read: float
    slowest_answer_ms: float

    def __str__(self) -> str:
        return f"{self.written:.0f}/s written, {self.read:.0f}/s read, slowest answer {self.slowest_answer_ms:.0f} ms"


class SteadyClients:
    """They write and read `TOPIC` from construction to `stop`."""

    def __init__(self, broker: Broker, create_topic: Callable[..., None]) -> None:
        self._broker = broker
        create_topic(broker.bootstrap_servers, TOPIC, config={"segment.bytes": 4 << 20})
        self._writer = Writer(
            bootstrap=broker.bootstrap_servers,
            topic=TOPIC,
            partitions=[0],
            guarantee=EXACTLY_ONCE,
            records_per_second=RECORDS_PER_SECOND,
        )
        self._tail = Tail(bootstrap=broker.bootstrap_servers, topic=TOPIC, partitions=[0])
        self._writer.start()
        self._tail.start()
        time.sleep(WARM_UP_SECONDS)

    def rates_over(self, seconds: float) -> Rates:
        self._writer.slowest_answer_seconds = 0.0
        began, written, read = time.monotonic(), self._writer.acknowledged_count, len(self._tail.seen)
        time.sleep(seconds)
        elapsed = time.monotonic() - began
        return Rates(
            (self._writer.acknowledged_count - written) / elapsed,
            (len(self._tail.seen) - read) / elapsed,
            self._writer.slowest_answer_seconds * 1000,
        )

    def require_rates(self, calm: Rates, seconds: float) -> Rates:
        """The rates of a window in which at least `RATE_KEPT_MIN` of the calm ones were reached.

        One such window of a few is enough: others use the machine too, and a broker that is held up is so in each.
        """
        for _ in range(WINDOWS_MAX):
            rates = self.rates_over(seconds)
            if rates.written >= RATE_KEPT_MIN * calm.written and rates.read >= RATE_KEPT_MIN * calm.read:
                return rates
        raise AssertionError(f"calm {calm}; now {rates}")

    def stop(self) -> Verdict:
        """Everything that was acknowledged must be there, whatever others did."""
        history = self._writer.stop()
        logs = read_all(self._broker.bootstrap_servers, TOPIC, [0])
        verdict = judge([history], logs, reads=self._tail.stop())
        verdict.require_clean()
        self._tail.require_steady()
        return verdict
