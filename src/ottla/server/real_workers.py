"""Threads behind `base.workers.Workers`: `num.io.threads` of them, for work that blocks on a disk or releases the GIL."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class RealWorkers:
    def __init__(self, loop: asyncio.AbstractEventLoop, thread_count: int) -> None:
        self._loop = loop
        self._executor = ThreadPoolExecutor(thread_count, thread_name_prefix="ottla-io")

    def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        return self._loop.run_in_executor(self._executor, partial(function, *args, **kwargs))

    def close(self) -> None:
        self._executor.shutdown(wait=True)
