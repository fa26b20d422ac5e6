"""Blocking work with simulated latency, one call after another or several at once, as a thread pool would do it.

The function runs somewhere between the start and the end of its latency, so the loop sees it neither instantly done nor
in a fixed order with other work.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class SimulatedWorkers:
    """Implements `base.workers.Workers`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, chance: Random, *, latency_seconds_max: float = 0.01) -> None:
        self._loop = loop
        self._chance = chance
        self.latency_seconds_max = latency_seconds_max
        self.call_count = 0

    def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        self.call_count += 1
        future: asyncio.Future[T] = self._loop.create_future()
        until_run = self._chance.random() * self.latency_seconds_max
        until_seen = self._chance.random() * self.latency_seconds_max

        def execute() -> None:
            try:
                result = function(*args, **kwargs)
            except Exception as error:
                self._loop.call_later(until_seen, _fail, future, error)
            else:
                self._loop.call_later(until_seen, _finish, future, result)

        self._loop.call_later(until_run, execute)  # A cancelled wait does not stop a thread: it runs all the same.
        return future


def _finish(future: "asyncio.Future[T]", result: T) -> None:
    if not future.cancelled():
        future.set_result(result)


def _fail(future: "asyncio.Future[T]", error: Exception) -> None:
    if not future.cancelled():
        future.set_exception(error)
