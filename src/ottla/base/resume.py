"""A coroutine's first step is run at once, without a task: most handlers, and most writes, finish in it.

A task would cost several microseconds and a turn of the loop for every request. Only what really waits becomes one, from
the point where it waits.
"""

from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


class _Started(Coroutine[Any, Any, T]):
    """A coroutine that has run to its first wait already, for `asyncio.Task` to go on with."""

    __slots__ = ("_coroutine", "_waits_on")

    def __init__(self, coroutine: Coroutine[Any, Any, T], waits_on: Any) -> None:
        self._coroutine = coroutine
        self._waits_on = waits_on
        # A future marks that it is being awaited until a task takes it over. Several handlers may wait for the same
        # future before their tasks have run: the mark is lifted here and set again when the task asks.
        waits_on._asyncio_future_blocking = False

    def send(self, value: Any) -> Any:
        waits_on = self._waits_on
        if waits_on is None:
            return self._coroutine.send(value)
        self._waits_on = None
        if waits_on.done():
            return self._coroutine.send(None)
        waits_on._asyncio_future_blocking = True
        return waits_on

    def throw(self, *args: Any) -> Any:
        waits_on, self._waits_on = self._waits_on, None
        if waits_on is not None:
            waits_on.cancel()  # As a task does with what it waits for; here the task has not seen it yet.
        return self._coroutine.throw(*args)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, T]:
        raise RuntimeError("for asyncio.Task alone")


def resume(coroutine: Coroutine[Any, Any, T], waits_on: object) -> Coroutine[Any, Any, T]:
    """`waits_on` is what the coroutine's first step yielded: a future, or None for a bare turn of the loop."""
    return _Started(coroutine, waits_on) if waits_on is not None else coroutine
