"""Waiting for what Kafka promises only soon: a broker learns of a change a moment after the controller answered it."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

from tests.conformance.client import ClientError

WAIT_S: Final = 10
PAUSE_S: Final = 0.05

Found = TypeVar("Found")


def eventually(look: Callable[[], Found], *, wait_s: float = WAIT_S) -> Found:
    """What `look` answers once it neither fails an assertion nor is refused; its last failure if it never does."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            return look()
        except (AssertionError, ClientError):
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_S)
