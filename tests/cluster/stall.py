"""How long a count that should grow did not: what clients see of a fault, whatever they do."""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

LOOK_SECONDS: Final = 0.02


class Stall:
    """Use as a context; `longest_ms` afterwards."""

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="stall", daemon=True)
        self.longest_ms = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        latest, since = self._count(), time.monotonic()
        while not self._over.wait(LOOK_SECONDS):
            self.longest_ms = max(self.longest_ms, (time.monotonic() - since) * 1000)
            if (count := self._count()) != latest:
                latest, since = count, time.monotonic()
