"""Whether something came true: known once, told to all who listen, at once and in their order.

A future tells each of them in a later turn of the loop, by a callback of its own: a third of what an offset commit cost
after its write.
"""

import logging
from collections.abc import Callable
from typing import TypeAlias

from ottla.base.errors import ApiError, invariant

logger = logging.getLogger(__name__)

Listener: TypeAlias = Callable[[ApiError | None], None]


class Outcome:
    __slots__ = ("_error", "_listeners", "is_known")

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._error: ApiError | None = None
        self.is_known = False

    def listen(self, listener: Listener) -> None:
        """It is called with the error, or with None if it came true."""
        if self.is_known:
            listener(self._error)
        else:
            self._listeners.append(listener)

    def tell(self, error: ApiError | None) -> None:
        invariant(not self.is_known, "an outcome is known once")
        self.is_known, self._error = True, error
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            try:
                listener(error)
            except Exception:  # The others are to hear of it.
                logger.exception("somebody who was told of an outcome failed")
