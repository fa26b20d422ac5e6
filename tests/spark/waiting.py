"""Waiting for what a broker does soon, but not at once."""

import time
from collections.abc import Callable
from typing import Final

WAIT_SECONDS_MAX: Final = 30.0
PAUSE_SECONDS: Final = 0.05


def until(condition: Callable[[], bool], seconds_max: float = WAIT_SECONDS_MAX) -> None:
    deadline = time.monotonic() + seconds_max
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not come"
        time.sleep(PAUSE_SECONDS)
