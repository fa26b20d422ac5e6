"""What one connection receives: where the bytes lie, how much memory they take, and who keeps them.

Small requests are parsed in a scratch buffer that all connections share, so an idle connection owns no buffer. A request
that does not fit moves to a buffer of the connection's own. A large one moves once: what it declares is address space, and
memory only as far as bytes arrived (`_grow`). A Produce handler writes the received bytes to the log from where they lie;
if it must wait while it still needs them, the connection leaves it the buffer and goes on with another (`_leave_buffer`).

Requests and their answers build on this (connection.py).
"""

from collections.abc import Callable
from typing import Final, Protocol

from ottla.base.clock import Clock
from ottla.broker.request import Parts
from ottla.server.request_memory import SCRATCH_BYTES, RequestMemory, Scratch, reserve_space

FIRST_READ_BYTES: Final = 64 << 10  # Enough for any small request, little to move when a large one begins in it.
LARGE_REQUEST_BYTES: Final = 128 << 10  # Up to here a request is received whatever memory others take.
GROWTH_BYTES_MAX: Final = 1 << 20  # What one step of a large request may take: also one read, so that others get on.
PROGRESS_BYTES_MIN: Final = 64 << 10  # So much of one request is as good as a request: its connection is in use.
BUFFER_KEPT_BYTES_MAX: Final = 4 << 20  # A larger receive buffer goes back to the system after its request.


class Transport(Protocol):
    def write(self, parts: Parts) -> None: ...

    def backlog_bytes(self) -> int: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def call_soon(self, callback: Callable[[], None]) -> None: ...

    def close(self) -> None: ...


class BufferHolder(Protocol):
    held_bytes: int
    """Of a receive buffer that was left to it."""


class ReceivingConnection:
    __slots__ = (
        "_clock", "_end", "_expected", "_holder", "_memory", "_noted_bytes", "_own", "_paused", "_scratch", "_start",
        "_transport", "_view", "last_active",
    )  # fmt: skip

    def __init__(self, *, transport: Transport, clock: Clock, scratch: Scratch, memory: RequestMemory) -> None:
        self._transport = transport
        self._clock = clock
        self._scratch = scratch
        self._memory = memory
        self._view: memoryview = scratch.view
        self._own: int = 0  # How much of the connection's own buffer may be filled; 0 while it uses the scratch.
        self._start = 0  # The first byte not handled yet.
        self._end = 0  # The first byte not received yet.
        self._expected = 0  # Size of the request being received, with its prefix, once known.
        self._noted_bytes = 0  # How much of it was there when it last got on.
        self._paused = False
        self._holder: BufferHolder | None = None  # The last request that waits and needs the buffer it came in.
        self.last_active = clock.monotonic()

    @property
    def must_grow(self) -> bool:
        """Whether the next read needs a buffer larger than any small request does: that is what memory is bounded for."""
        return self._end == self._own >= LARGE_REQUEST_BYTES

    @property
    def holds_half_request(self) -> bool:
        """Whether part of one takes memory and its peer owes the rest; a whole one waits only while we are paused."""
        return self._end > self._start and not self._paused

    def note_progress(self) -> None:
        """Called by the sweep: a request of which enough arrived since the last time keeps its connection active."""
        received_bytes = self._end - self._start
        gained_bytes = received_bytes - self._noted_bytes  # Below zero: of another request.
        if not 0 <= gained_bytes < PROGRESS_BYTES_MIN:
            self._noted_bytes = received_bytes
        if gained_bytes >= PROGRESS_BYTES_MIN:
            self.last_active = self._clock.monotonic()

    def get_buffer(self) -> memoryview:
        if not self._own:
            self._view = self._scratch.view
            return self._view
        if self._end == 0:
            return self._view[:FIRST_READ_BYTES]
        if self._end == self._own:
            self._grow()
        # Stopping at the end of a large request leaves nothing of the next one to move.
        limit = (
            min(self._own, max(self._start + self._expected, self._end + 1))
            if self._expected > FIRST_READ_BYTES
            else self._own
        )
        return self._view[self._end : limit]

    def _keep_rest(self, view: memoryview) -> None:
        """Leaves `_start` and the rest of the bytes where the next read continues."""
        rest = self._end - self._start
        if self._holder is not None:
            self._leave_buffer(self._holder)
        elif self._own:
            if rest == 0:
                self._start = self._end = 0
                self._memory.finished(self._transport)
                if self._own <= FIRST_READ_BYTES or self._own > BUFFER_KEPT_BYTES_MAX:
                    self._drop_buffer()
            elif self._start and self._end == self._own:
                view[:rest] = bytes(view[self._start : self._end])
                self._start, self._end = 0, rest
            return
        if rest:
            self._adopt(view[self._start : self._end], capacity=max(rest, min(2 * rest + 512, FIRST_READ_BYTES)))
        else:
            self._start = self._end = 0
            self._view = self._scratch.view

    def _leave_buffer(self, holder: BufferHolder) -> None:
        """`holder` keeps the buffer, perhaps with earlier ones: it counts until the one that began last is answered."""
        self._holder = None
        if self._own:
            holder.held_bytes, self._own = self._own, 0
            self._memory.finished(self._transport)
        else:
            holder.held_bytes = SCRATCH_BYTES
            self._memory.reserve(SCRATCH_BYTES)
            self._scratch.renew()

    def _adopt(self, content: memoryview, capacity: int) -> None:
        buffer = memoryview(bytearray(capacity))
        buffer[: len(content)] = content
        self._memory.reserve(capacity)
        self._own = capacity
        self._view = buffer
        self._start, self._end = 0, len(content)

    def _grow(self) -> None:
        """Makes room behind what was received, which begins at the start of the buffer."""
        if self._expected <= FIRST_READ_BYTES:
            self._memory.release(self._own)
            self._adopt(self._view[: self._end], capacity=max(FIRST_READ_BYTES, self._end + 1))
            return
        needed = max(self._expected, self._end + 1)
        if needed > len(self._view):
            space = reserve_space(max(needed, BUFFER_KEPT_BYTES_MAX))
            space[: self._end] = self._view[: self._end]
            self._view = space
        wanted = min(max(2 * self._own, LARGE_REQUEST_BYTES), self._own + GROWTH_BYTES_MAX, len(self._view))
        growth = wanted - self._own
        self._memory.reserve(growth)
        self._own += growth

    def _drop_buffer(self) -> None:
        self._memory.release(self._own)
        self._own = 0
        self._view = self._scratch.view
