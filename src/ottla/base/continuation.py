"""A coroutine's first step is run at once, without a task: most handlers, and most writes, finish in it.

What really waits goes on here, from the point where it waits. A task would do the same and cost two more turns of the
loop: one to begin waiting, one to say that it is done. The price: what needs a task of its own (`asyncio.timeout`) raises
in such a coroutine.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeAlias, TypeVar

T = TypeVar("T")
OnFinished: TypeAlias = Callable[[T | None, BaseException | None], None]


class Continuation(Generic[T]):
    """Runs `coroutine` to its end. `waits_on` is what its last step yielded: a future, or None for a turn of the loop.

    `on_finished` is called once, with the result or with what the coroutine raised.
    """

    __slots__ = ("_coroutine", "_must_cancel", "_on_finished", "_waits_on")

    def __init__(self, coroutine: Coroutine[Any, Any, T], waits_on: Any, on_finished: "OnFinished[T]") -> None:
        self._coroutine = coroutine
        self._on_finished = on_finished
        self._must_cancel = False
        self._wait(waits_on)

    def cancel(self) -> None:
        """As of a task: what is waited for is cancelled, too, and the coroutine learns of it in a later turn."""
        self._must_cancel = self._waits_on is None or not self._waits_on.cancel()

    def _wait(self, waits_on: Any) -> None:
        self._waits_on = waits_on
        if waits_on is None:
            asyncio.get_running_loop().call_soon(self._go_on, None)
        else:
            waits_on._asyncio_future_blocking = False  # The mark of a future that is awaited and watched by nobody yet.
            waits_on.add_done_callback(self._go_on)

    def _go_on(self, _: object) -> None:
        try:
            if self._must_cancel:
                self._must_cancel = False
                waits_on = self._coroutine.throw(asyncio.CancelledError())
            else:
                waits_on = self._coroutine.send(None)  # A failed future raises by itself where it is awaited.
        except StopIteration as finished:
            self._on_finished(finished.value, None)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            self._on_finished(None, error)
        else:
            self._wait(waits_on)
