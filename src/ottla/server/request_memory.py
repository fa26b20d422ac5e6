"""The bytes of requests that are being received, bounded over all connections (`queued.max.request.bytes`).

Counted are the connections' own buffers as far as they may be filled, and those that waiting handlers keep. Past the limit
no buffer grows beyond what a small request needs: a connection that would have to is not read from until there is room,
while small requests go on. One connection at a time is let through all the same, so that half-received requests cannot
block each other for ever. Many small halves can exceed the limit too: as long as it is exceeded, the sweep of
socket_server.py closes the connections whose requests do not get on.
"""

from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Final, Protocol

SCRATCH_BYTES: Final = 64 << 10


class Scratch:
    """The receive buffer that all connections of a loop share: valid from a read to the end of its parsing."""

    __slots__ = ("view",)

    def __init__(self) -> None:
        self.view = memoryview(bytearray(SCRATCH_BYTES))

    def renew(self) -> None:
        """A handler kept views of the old buffer: it is theirs now."""
        self.view = memoryview(bytearray(SCRATCH_BYTES))


def reserve_space(capacity: int) -> memoryview:
    """A buffer that is address space now and takes memory page by page, as it is written to; gone with its last view."""
    return memoryview(mmap(-1, capacity, flags=MAP_PRIVATE | MAP_ANONYMOUS))


class Reader(Protocol):
    def resume_reading(self) -> None: ...


class RequestMemory:
    __slots__ = ("_privileged", "_waiting", "limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._privileged: Reader | None = None
        self._waiting: dict[Reader, None] = {}

    def admit(self, reader: Reader) -> bool:
        """Whether the buffer of `reader` may grow now; if not, it is resumed later."""
        if self.used_bytes <= self.limit_bytes or self._privileged is reader:
            return True
        if self._privileged is None:
            self._privileged = reader
            return True
        self._waiting[reader] = None
        return False

    @property
    def is_exceeded(self) -> bool:
        return self.used_bytes > self.limit_bytes

    def is_waiting(self, reader: Reader) -> bool:
        """Whether `reader` stands still because it was not admitted."""
        return reader in self._waiting

    def reserve(self, count: int) -> None:
        self.used_bytes += count

    def release(self, count: int) -> None:
        self.used_bytes -= count
        if self._waiting and self.used_bytes <= self.limit_bytes:
            waiting, self._waiting = self._waiting, {}
            for reader in waiting:
                reader.resume_reading()

    def finished(self, reader: Reader) -> None:
        """`reader` completed its request or is gone: its privilege passes on."""
        self._waiting.pop(reader, None)
        if self._privileged is reader:
            self._privileged = next(iter(self._waiting), None)
            if self._privileged is not None:
                del self._waiting[self._privileged]
                self._privileged.resume_reading()
