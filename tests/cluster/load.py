"""A steady stream of numbered records to one topic, read while it is written, and the verdict on what became of it.

The producer is librdkafka, idempotent with acks=all, with the reconnect and retry settings that its users get. Writer,
reader and checker are those of the chaos suite (tests/chaos/checker.py says what it looks for).
"""

from collections.abc import Mapping
from typing import Any, Final, Self

from tests.chaos.brokers import wait_until
from tests.chaos.checker import Verdict, judge
from tests.chaos.readers import Tail, read_all
from tests.chaos.writers import EXACTLY_ONCE, Guarantee, Writer

RECORDS_PER_SECOND: Final = 300
VALUE_BYTES: Final = 200
UNMODIFIED: Final = {
    "reconnect.backoff.ms": 100,
    "reconnect.backoff.max.ms": 10_000,
    "retry.backoff.ms": 100,
    "linger.ms": 5,
}
YEAR_SECONDS: Final = 365 * 86_400
DAY_SECONDS_UNAVAILABLE: Final = 8.6  # Of a day with 99.99 %.
YEAR_SECONDS_UNAVAILABLE: Final = {
    "99.999": YEAR_SECONDS * 0.00001,
    "99.99": YEAR_SECONDS * 0.0001,
    "99.95": YEAR_SECONDS * 0.0005,
}
# A host that is silent, and not gone, costs every client the time that it waits for answers: by default half a minute.
IMPATIENT: Final = {
    "request.timeout.ms": 1_000,
    "socket.timeout.ms": 2_000,
    "socket.connection.setup.timeout.ms": 1_000,
    "topic.metadata.refresh.interval.ms": 1_000,
}


class Load:
    """Use as a context; `verdict()` afterwards."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        partitions: int = 1,
        guarantee: Guarantee = EXACTLY_ONCE,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._partitions = range(partitions)
        self.writer = Writer(
            bootstrap=bootstrap,
            topic=topic,
            partitions=self._partitions,
            guarantee=guarantee,
            records_per_second=RECORDS_PER_SECOND,
            value_bytes=VALUE_BYTES,
            settings={**UNMODIFIED, **(settings or {})},
        )
        self.tail = Tail(bootstrap=bootstrap, topic=topic, partitions=self._partitions)

    def __enter__(self) -> Self:
        self.writer.start()
        self.tail.start()
        self.wait_for(10)
        return self

    def __exit__(self, *failure: object) -> None:
        if failure == (None, None, None):
            self.writer.stop()
        else:
            self.writer.abandon()
        self.tail.stop()

    def wait_for(self, count: int, *, seconds: float = 30.0) -> None:
        """Until so many more are acknowledged: the cluster takes writes."""
        wanted = self.writer.acknowledged_count + count
        wait_until(lambda: self.writer.acknowledged_count >= wanted, f"{count} more writes", seconds=seconds)

    def verdict(self) -> Verdict:
        """Everything that was promised and read meanwhile, against everything that is there now."""
        logs = read_all(self._bootstrap, self._topic, self._partitions)
        return judge([self.writer.history], logs, reads=self.tail.seen)

    def require_clean(self) -> str:
        """Nothing lost, changed, repeated or out of order, and readers neither jumped nor saw what is gone."""
        verdict = self.verdict()
        verdict.require_clean()
        self.tail.require_steady()
        return self.figures(verdict)

    def figures(self, verdict: Verdict) -> str:
        lost, duplicated = verdict.violations["lost"], verdict.violations["duplicate"]
        gap_seconds = self.writer.longest_gap_seconds
        return (
            f"{verdict.acknowledged} acknowledged, {lost} lost, {duplicated} duplicated, "
            f"longest unavailability {gap_seconds * 1000:.0f} ms ({faults_a_year(gap_seconds)})"
        )


def faults_a_year(unavailable_seconds: float) -> str:
    """How many such faults each availability leaves room for (scene 59)."""
    allowed = [f"{int(budget / max(unavailable_seconds, 0.001)):,}" for budget in YEAR_SECONDS_UNAVAILABLE.values()]
    return f"a year of {' / '.join(YEAR_SECONDS_UNAVAILABLE)} % has room for {' / '.join(allowed)} of them"
