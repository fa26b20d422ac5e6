"""Ctrl-C while librdkafka is being polled.

confluent-kafka's binding runs Python's signal handlers between slices of a poll, and an exception that one of them
raises there is sometimes lost: the command would go on as if nobody had pressed a key. So the handler only takes a
note, and the loop asks for it.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def noted_interrupts() -> Iterator[Callable[[], None]]:
    """Inside of the block, call what it gives after every poll: it raises the `KeyboardInterrupt` that was noted.

    A second Ctrl-C does not wait for that: the loop may be stuck in a write.
    """
    noted = False

    def note(_signal: int, _frame: FrameType | None) -> None:
        nonlocal noted
        if noted:
            raise KeyboardInterrupt
        noted = True

    def check() -> None:
        if noted:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, note)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)
