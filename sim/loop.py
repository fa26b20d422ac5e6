"""An asyncio event loop in virtual time: no selector, no threads, no waiting.

When nothing is ready, time jumps to the next timer. Timers due at the same moment run in an order drawn from the seed;
with `shuffle` so do all ready callbacks (asyncio promises first come, first served: code that leans on that promise
runs with `shuffle` off). An error that nobody awaits ends the run, and so does a run in which something is awaited but
nothing is left to do.

Several machines may share the loop: code runs on behalf of a `Host`, the callbacks of a dead one are dropped, those of a
paused one wait.
"""

import asyncio
import heapq
import inspect
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar
from random import Random
from typing import Any, Final, TypeVar, TypeVarTuple
from weakref import WeakKeyDictionary

from ottla.base.errors import ApiError
from sim.clock import SimulatedClock
from sim.trace import Trace

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Host:
    """A machine in the world. What its code has scheduled does not run any more once the machine is off.

    One that is paused (SIGSTOP) does nothing either, and everything when it goes on.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_alive = True
        self.is_paused = False
        self.held: list[asyncio.Handle] = []


HOST: Final[ContextVar[Host | None]] = ContextVar("host", default=None)
"""On whose behalf code runs. Tasks and callbacks inherit it, as they inherit every context variable."""

AWAITS_IN_FINALLY_MAX: Final = 10
STEPS_MAX: Final = 2_000_000  # Of one run: past this, something spins.


class Stuck(Exception):
    """Something is awaited, and nothing is left that could ever complete it."""


class SimulatedLoop(asyncio.AbstractEventLoop):
    def __init__(self, clock: SimulatedClock, chance: Random, trace: Trace, *, shuffle: bool = True) -> None:
        self._clock = clock
        self._chance = chance
        self._trace = trace
        self._shuffle = shuffle
        self._ready: list[asyncio.Handle] = []
        self._timers: list[tuple[float, float, int, asyncio.TimerHandle]] = []
        self._timer_count = 0
        self._running = False
        self._closed = False
        self._errors: list[BaseException] = []
        self._task_hosts: WeakKeyDictionary[asyncio.Task[Any], Host | None] = WeakKeyDictionary()
        self._graves: dict[asyncio.Task[Any], None] = {}  # Kept, so that nothing of them is cleaned up.
        self.step_count = 0

    # -- running -----------------------------------------------------------------------------------------------------

    def run_until_complete(self, future: Any) -> Any:
        """Runs until `future` (or a coroutine, as a task) is done; errors of other tasks are raised here too."""
        task = asyncio.ensure_future(future, loop=self)
        self._run(task.done, waiting_for=task)
        return task.result()

    def run_for(self, seconds: float) -> None:
        """Lets the world go on for so long, whatever happens in it."""
        deadline = self.create_future()
        self.call_later(seconds, deadline.set_result, None)
        self._run(deadline.done, waiting_for=deadline)

    def _run(self, finished: Callable[[], bool], waiting_for: object) -> None:
        self._running = True
        outer = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            while not finished():
                self._step(waiting_for)
        finally:
            self._running = False
            asyncio._set_running_loop(outer)

    def _step(self, waiting_for: object) -> None:
        if self._timers and self._timers[0][0] <= self._clock.monotonic():
            self._collect_due_timers()
        if not self._ready:
            if not self._timers:
                raise Stuck(f"nothing is left to run, but {waiting_for!r} is awaited")
            self._clock.advance_to(self._timers[0][0])
            return
        self.step_count += 1
        if self.step_count > STEPS_MAX:
            raise Stuck(f"more than {STEPS_MAX} steps: {waiting_for!r} does not come to an end")
        ready = self._ready
        handle = ready.pop(int(self._chance.random() * len(ready)) if self._shuffle and len(ready) > 1 else 0)
        if handle._cancelled:  # type: ignore[attr-defined]
            return
        host = handle._context.get(HOST)  # type: ignore[attr-defined]
        if host is not None and not host.is_alive:
            return
        if host is not None and host.is_paused:
            host.held.append(handle)
            return
        handle._run()
        if host is not None and not host.is_alive:
            self._errors.clear()  # It died of this callback, and its errors died with it.
        if self._errors:
            raise self._errors.pop(0)

    def pause(self, host: Host) -> None:
        host.is_paused = True

    def resume(self, host: Host) -> None:
        """What came due meanwhile runs now, in any order."""
        host.is_paused = False
        held, host.held = host.held, []
        self._ready += held

    def bury(self, host: Host) -> None:
        """The host's tasks stay as they are, for ever: nothing of them runs, not even their `finally`."""
        for task in self.living_tasks():
            if self._task_hosts[task] is host:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                self._graves[task] = None
                coroutine = task.get_coro()
                if inspect.iscoroutine(coroutine) and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
                    coroutine.close()  # It has not begun, so nothing of it runs; Python would complain otherwise.

    def _collect_due_timers(self) -> None:
        now = self._clock.monotonic()
        while self._timers and self._timers[0][0] <= now:
            handle = heapq.heappop(self._timers)[3]
            if not handle.cancelled():
                self._ready.append(handle)

    def living_tasks(self) -> list[asyncio.Task[Any]]:
        """In the order of their creation: `asyncio.all_tasks` is a set, and sets differ from run to run."""
        return [task for task in list(self._task_hosts) if not task.done() and task not in self._graves]

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Ends the loop. What was never awaited and failed is raised now at the latest."""
        self._closed = True
        self._ready.clear()
        self._timers.clear()
        with self._trace.paused():  # What the dead still do when they are taken away is no part of the run.
            for task in self._graves:
                _take_away(task)
        for task, host in list(self._task_hosts.items()):
            is_forgotten = task.done() and not task.cancelled() and task._log_traceback
            error = task.exception() if is_forgotten else None
            if error is not None and not isinstance(error, ApiError) and (host is None or host.is_alive):
                self._errors.append(error)
        if self._errors:
            raise self._errors.pop(0)

    # -- scheduling --------------------------------------------------------------------------------------------------

    def time(self) -> float:
        return self._clock.monotonic()

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # There are no other threads.

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._timer_count += 1
        heapq.heappush(self._timers, (when, self._chance.random(), self._timer_count, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """`TimerHandle.cancel` tells its loop; ours finds out when the timer is due."""

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> "asyncio.Task[Any]":
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self._task_hosts[task] = HOST.get()
        return task

    def run_in_executor(self, executor: Any, func: Callable[[*Ts], T], *args: *Ts) -> "asyncio.Future[T]":
        """In line, on a later turn: simulated latency is `SimulatedWorkers`' part."""
        future: asyncio.Future[T] = self.create_future()

        def run() -> None:
            try:
                result = func(*args)
            except Exception as error:
                if not future.cancelled():
                    future.set_exception(error)
            else:
                if not future.cancelled():
                    future.set_result(result)

        self.call_soon(run)
        return future

    # -- what asyncio asks of a loop ---------------------------------------------------------------------------------

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, ApiError):
            return  # A refusal whose asker went away just before it came.
        self._trace.add("error", context["message"], repr(error))
        self._errors.append(error if isinstance(error, BaseException) else RuntimeError(context["message"]))

    async def shutdown_asyncgens(self) -> None:
        return

    async def shutdown_default_executor(self) -> None:
        return


def _take_away(task: asyncio.Task[Any]) -> None:
    """Python would end the coroutine some time, and complain about a `finally` that awaits."""
    for _ in range(AWAITS_IN_FINALLY_MAX):
        try:
            task.get_coro().close()
            return
        except BaseException:
            continue


async def _settle(tasks: list[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


def run(loop: SimulatedLoop, main: Coroutine[Any, Any, T]) -> T:
    """Runs `main` to its end, cancels what it left behind, closes the loop."""
    try:
        result: T = loop.run_until_complete(main)
        left = loop.living_tasks()
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(_settle(left))
    except BaseException:
        loop._errors.clear()
        loop.close()
        raise
    loop.close()
    return result
