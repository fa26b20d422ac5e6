"""Deadlines of members and rebalances: one timer for all of a machine's, moved without touching it.

A heartbeat only writes `due_at`. Each timed thing has at most one entry in the heap that counts; when that entry comes
up and the deadline has moved on meanwhile, it is put back at its new place. So ten thousand members cost one look each
per session time-out, however often they beat.

A loop that stood still (a stopped process, a stalled disk) owes its members the heartbeats that wait in their sockets:
the first round after a stall is put off once.
"""

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

NEVER: Final = float("inf")
RETRY_SECONDS: Final = 1.0  # What came due comes due again unless it was settled: its decision may have been refused.
STALL_SECONDS: Final = 1.0


class Timed:
    """Something with a deadline, in seconds of the loop's clock."""

    __slots__ = ("due_at", "entry_at", "retried_at")

    def __init__(self) -> None:
        self.due_at = NEVER
        self.entry_at = NEVER
        self.retried_at = 0.0


class Deadlines:
    def __init__(self, on_due: Callable[[Timed], None]) -> None:
        self._on_due = on_due
        self._heap: list[tuple[float, int, Timed]] = []
        self._entry_count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = NEVER
        self._is_excused = False

    def set(self, timed: Timed, milliseconds: int) -> None:
        timed.due_at = asyncio.get_running_loop().time() + milliseconds / 1000
        if timed.due_at < timed.entry_at:
            self._enter(timed)

    def clear(self, timed: Timed) -> None:
        timed.due_at = NEVER

    def is_due(self, timed: Timed) -> bool:
        """Still, when what `on_due` asked for gets its turn: nobody has moved the deadline meanwhile."""
        return timed.due_at == timed.retried_at

    def is_over(self, timed: Timed) -> bool:
        """As `is_due`, also in the moment before its timer comes up; but not after a stall."""
        now = asyncio.get_running_loop().time()
        is_stalled = self._is_excused or now - self._timer_at > STALL_SECONDS
        return self.is_due(timed) or (timed.due_at <= now and not is_stalled)

    def stop(self) -> None:
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _enter(self, timed: Timed) -> None:
        timed.entry_at = timed.due_at
        self._entry_count += 1
        heappush(self._heap, (timed.due_at, self._entry_count, timed))
        if timed.due_at < self._timer_at:
            self._arm(timed.due_at)

    def _arm(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = when
        self._timer = asyncio.get_running_loop().call_at(when, self._on_timer)

    def _on_timer(self) -> None:
        now = asyncio.get_running_loop().time()
        is_late = now - self._timer_at > STALL_SECONDS
        self._timer, self._timer_at = None, NEVER
        if is_late and not self._is_excused:
            self._is_excused = True
            self._arm(now + STALL_SECONDS)
            return
        self._is_excused = False
        heap = self._heap
        while heap and heap[0][0] <= now:
            entry_at, _, timed = heappop(heap)
            if entry_at == timed.entry_at:  # Not replaced by an earlier one.
                timed.entry_at = NEVER
                self._come_up(timed, now)
        if heap and heap[0][0] < self._timer_at:
            self._arm(heap[0][0])

    def _come_up(self, timed: Timed, now: float) -> None:
        if timed.due_at <= now:
            timed.due_at = timed.retried_at = now + RETRY_SECONDS
            self._enter(timed)
            self._on_due(timed)
        elif timed.due_at != NEVER:
            self._enter(timed)
