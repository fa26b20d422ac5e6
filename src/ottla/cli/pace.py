"""Holding a rate: each step has its moment on a fixed schedule, so that a late one is caught up, not added."""

import re
import time
from collections.abc import Callable


def parse_rate(text: str) -> float:
    """`500`, `500/s`, `30/m` as steps a second."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(?:/(s|m|h))?", text.strip())
    if match is None or float(match[1]) <= 0:
        raise ValueError(f"{text!r} is not a rate such as 500, 500/s or 30/m")
    return float(match[1]) / {"s": 1, "m": 60, "h": 3600}[match[2] or "s"]


class Pace:
    def __init__(
        self,
        per_second: float,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._interval_s = 1 / per_second
        self._monotonic = monotonic
        self._sleep = sleep
        self._next_at = monotonic()

    def wait(self) -> None:
        """Returns when the next step is due."""
        ahead_s = self._next_at - self._monotonic()
        if ahead_s > 0:
            self._sleep(ahead_s)
        self._next_at += self._interval_s
