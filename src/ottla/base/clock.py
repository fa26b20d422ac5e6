"""Time as a port. Deadlines use `monotonic`, records and files use `now_ms`; the simulator moves both by hand."""

from typing import Protocol

from ottla.base.types import TimestampMs


class Clock(Protocol):
    def now_ms(self) -> TimestampMs:
        """Wall-clock milliseconds since the epoch: may jump, is written into records."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back: the only clock for time-outs."""
        ...
