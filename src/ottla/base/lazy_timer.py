"""A timer for deadlines that are set all the time and hardly ever come.

Setting and cancelling a timer of the loop for each request costs more than what most requests do. This one stays set for
the earliest deadline it has seen; when it goes off too early, for nobody waits any more or only for later, it is set anew.
"""

import asyncio
from collections.abc import Callable


class LazyTimer:
    __slots__ = ("_deadline", "_handle", "_on_due", "_set_for")

    def __init__(self, on_due: Callable[[], None]) -> None:
        self._on_due = on_due
        self._deadline: float | None = None
        self._handle: asyncio.TimerHandle | None = None
        self._set_for = 0.0

    def set(self, deadline: float) -> None:
        """`on_due` is called at that time of the loop, and not at the one set before."""
        self._deadline = deadline
        handle = self._handle
        if handle is None or deadline < self._set_for:
            if handle is not None:
                handle.cancel()
            self._set_for = deadline
            self._handle = asyncio.get_running_loop().call_at(deadline, self._on_timer)

    def bring_forward(self, deadline: float) -> None:
        """As `set`, unless an earlier deadline is set already: then that one stays."""
        if self._deadline is None or deadline < self._deadline:
            self.set(deadline)

    def clear(self) -> None:
        """Nobody waits; the loop's timer is left alone."""
        self._deadline = None

    def cancel(self) -> None:
        """For good: nothing of it is left in the loop."""
        self._deadline = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _on_timer(self) -> None:
        self._handle = None
        deadline = self._deadline
        if deadline is None:
            return
        if deadline > self._set_for:
            self.set(deadline)
        else:
            self._deadline = None
            self._on_due()
