"""Threads as a port: where blocking work goes so that the event loop never waits for a disk."""

from collections.abc import Awaitable, Callable
from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Workers(Protocol):
    def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Runs `function` outside the loop. The function touches nothing that the loop changes meanwhile."""
        ...
