"""Fakes that several rooms' tests share: a clock moved by hand, workers that wait for a word."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")


class FakeClock:
    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._seconds = 0.0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return self._seconds

    def advance(self, seconds: float) -> None:
        self._seconds += seconds
        self._now_ms += int(seconds * 1000)


class FakeWorkers:
    """Runs work at once, or when `release` is called after `hold`."""

    def __init__(self) -> None:
        self._held: list[tuple[Callable[[], Any], asyncio.Future[Any]]] | None = None
        self.names: list[str] = []

    def run(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Awaitable[T]:
        self.names.append(getattr(function, "__name__", "work"))
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if self._held is None:
            self._finish(lambda: function(*args, **kwargs), future)
        else:
            self._held.append((lambda: function(*args, **kwargs), future))
        return future

    def hold(self) -> None:
        self._held = []

    def release(self) -> None:
        held, self._held = self._held or [], None
        for work, future in held:
            if not future.done():
                self._finish(work, future)

    @staticmethod
    def _finish(work: Callable[[], Any], future: "asyncio.Future[Any]") -> None:
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)
