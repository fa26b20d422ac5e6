"""What happened, in order, as one hash: two runs of a seed must agree on it.

The last lines are kept as text, because a hash says that two runs differ but not where.
"""

import hashlib
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

LINES_KEPT_MAX: Final = 200


class Trace:
    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self.recent: deque[str] = deque(maxlen=LINES_KEPT_MAX)
        self.event_count = 0
        self._is_paused = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What happens now is not noted."""
        self._is_paused = True
        yield
        self._is_paused = False

    def add(self, *facts: object) -> None:
        if self._is_paused:
            return
        line = " ".join(map(str, facts))
        self._hash.update(line.encode())
        self._hash.update(b"\n")
        self.recent.append(line)
        self.event_count += 1

    def digest(self) -> str:
        return self._hash.hexdigest()
