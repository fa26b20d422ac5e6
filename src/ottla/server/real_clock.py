"""The machine's clocks behind `base.clock.Clock`."""

import time

from ottla.base.types import TimestampMs


class RealClock:
    __slots__ = ()

    monotonic = staticmethod(time.monotonic)

    @staticmethod
    def now_ms() -> TimestampMs:
        return time.time_ns() // 1_000_000
