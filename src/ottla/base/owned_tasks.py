"""Background tasks with an owner: kept alive until they end, awaited at the end, their failures never lost."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from ottla.base.errors import ApiError

T = TypeVar("T")


class OwnedTasks:
    """The loop holds tasks weakly; whoever starts one in the background keeps it here."""

    __slots__ = ("_tasks",)

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], None] = {}  # A set's order would differ from run to run.

    def spawn(self, coroutine: Coroutine[Any, Any, T], name: str) -> "asyncio.Task[T]":
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.pop(task, None)
        error = None if task.cancelled() else task.exception()
        # A refusal has been told to whoever asked. Anything else reaches the loop's handler, which logs it, and ends
        # the process where it is a bug of ours.
        if error is not None and not isinstance(error, ApiError):
            raise error

    async def cancel(self) -> None:
        """Ends those that wait for something."""
        for task in tuple(self._tasks):
            task.cancel()
        await self.settle()

    async def settle(self) -> None:
        """Waits for all of them; called once no new one can start."""
        while self._tasks:
            await asyncio.wait(self._tasks)
