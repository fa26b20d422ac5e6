"""A connection's socket on the event loop: receive into its buffer, send bytes and file regions in order.

Works on every selector loop and on uvloop (`add_reader`, `add_writer`), neither of which has a usable `sendfile` of its own.
Regions of segment files go out by `sendfile`; small ones are read and joined with what precedes them, because one system
call then does. What is not in the page cache is read by a worker and sent from memory: the loop never waits for a disk.
"""

import asyncio
import errno
import logging
import os
import select
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from ottla.base.disk import Buffer, File
from ottla.base.workers import Workers
from ottla.broker.request import Part, Parts
from ottla.log.partition_log import LogSlice
from ottla.server.connection import Connection
from ottla.server.request_memory import RequestMemory
from ottla.server.turn_end import TurnEnd

logger = logging.getLogger(__name__)

READS_PER_EVENT_MAX: Final = 8  # Then other connections get their turn,
BYTES_PER_EVENT_MAX: Final = 1 << 20  # also after few reads of a large request: a millisecond or so.
PIPELINED_ANSWERS_MIN: Final = 2
JOINED_BYTES_MAX: Final = 32 << 10  # Below this a copy costs less than a further system call.
SENDFILE_BYTES_MAX: Final = 1 << 20  # One step of a transfer; also the unit of the page-cache probe.
BUFFERS_PER_SEND_MAX: Final = 64
_HANG_UP: Final = getattr(select, "POLLRDHUP", 0)  # Where there is none (macOS) only a reset shows.
_MSG_MORE: Final = getattr(socket, "MSG_MORE", 0)


def _too_short(file: File) -> OSError:
    return OSError(errno.EIO, f"segment file {file.path} is shorter than its index says")


def _is_sendable(region: LogSlice) -> bool:
    """Whether the next step of the transfer would not wait for the disk."""
    if region.is_recent:
        return True
    return _file_of(region).is_cached(region.position, min(region.size, SENDFILE_BYTES_MAX))


def _file_of(region: LogSlice) -> File:
    assert region.file is not None
    return region.file


def _read_step(region: LogSlice) -> bytes:
    """Blocking; run by a worker. The bytes of the next step: pages might be gone again before the loop sends them."""
    file = _file_of(region)
    data = file.pread(min(region.size, SENDFILE_BYTES_MAX), region.position)
    if not data:
        raise _too_short(file)
    return data


def _after(part: Part, count: int) -> Part:
    """What is left of it behind `count` bytes."""
    if isinstance(part, LogSlice):
        return part._replace(position=part.position + count, size=part.size - count)
    return memoryview(part)[count:]


class SocketTransport:
    __slots__ = (
        "_backlog_bytes", "_closed", "_connection", "_corked", "_fd", "_loop", "_memory", "_output", "_reading",
        "_reading_cold", "_sock", "_turn_end", "_workers", "_writer_armed",
    )  # fmt: skip

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        workers: Workers,
        memory: RequestMemory,
        turn_end: TurnEnd,
    ) -> None:
        self._loop = loop
        self._sock = sock
        self._fd = sock.fileno()
        self._workers = workers
        self._memory = memory
        self._turn_end = turn_end
        self._connection: Connection | None = None
        self._output: deque[Part] = deque()
        self._backlog_bytes = 0
        self._reading = False
        self._writer_armed = False
        self._corked = False
        self._reading_cold: asyncio.Task[None] | None = None
        self._closed = False

    def start(self, connection: Connection) -> None:
        self._connection = connection
        self.resume_reading()

    # -- reading -----------------------------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        """Reads and handles what is there; the answers leave together."""
        self._corked = True
        try:
            self._receive()
        finally:
            self._corked = False
            if self._output:
                if self._connection is not None and self._connection.can_answers_wait:
                    self._turn_end.add(self)
                else:
                    self.send_waiting()

    def send_waiting(self) -> None:
        if self._output and not self._writer_armed and self._reading_cold is None:
            self._on_writable()  # Not `_flush`: what waited in the cork may have held the connection back.

    def _receive(self) -> None:
        connection = self._connection
        assert connection is not None
        received_bytes = 0
        for _ in range(READS_PER_EVENT_MAX):
            if connection.must_grow and not self._memory.admit(self):
                self.pause_reading()
                return
            try:
                buffer = connection.get_buffer()
            except OSError as error:
                logger.warning("closing connection from %s: no room for its request: %s", connection.peer, error)
                self.close()
                return
            try:
                count = self._sock.recv_into(buffer)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                self.close()
                return
            if count == 0:
                self.close()
                return
            connection.buffer_updated(count)
            received_bytes += count
            if not self._reading or received_bytes >= BYTES_PER_EVENT_MAX:
                return
            # Several answers at once: the client does not wait for each, so more may be on its way already.
            if count < len(buffer) and len(self._output) < PIPELINED_ANSWERS_MIN:
                return

    def watch_hang_up(self, poll: select.poll) -> int:
        """So that `poll` tells whether the peer is gone unnoticed. Returns the descriptor by which it does.

        Where nothing is read, no read tells that it hung up. uvloop tells of a reset once, and if data came with it that
        is what was read then.
        """
        poll.register(self._fd, 0 if self._reading else _HANG_UP)
        return self._fd

    def pause_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._fd)

    def resume_reading(self) -> None:
        if not self._reading and not self._closed:
            self._reading = True
            self._loop.add_reader(self._fd, self._on_readable)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback)

    # -- writing -----------------------------------------------------------------------------------------------------

    def backlog_bytes(self) -> int:
        return self._backlog_bytes

    def write(self, parts: Parts) -> None:
        if self._closed:
            return
        if len(parts) == 1 and not self._output and not self._corked and not isinstance(parts[0], LogSlice):
            self._send_alone(parts[0])
            return
        for part in parts:
            size = part.size if isinstance(part, LogSlice) else len(part)
            if size:  # An empty part would never be sent.
                self._output.append(part)
                self._backlog_bytes += size
        if not self._corked and not self._writer_armed and self._reading_cold is None:
            self._flush()

    def _send_alone(self, part: Buffer) -> None:
        """Nothing waits before it, and as a rule the kernel takes it whole."""
        try:
            sent = self._sock.send(part, 0)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            self._on_send_error(error)
            return
        if sent < len(part):
            self._output.append(_after(part, sent))
            self._backlog_bytes = len(part) - sent
            self._arm_writer()

    def _flush(self) -> None:
        output = self._output
        try:
            while output:
                head = output[0]
                if not isinstance(head, LogSlice):
                    sent = self._send_joined()
                elif _is_sendable(head):
                    sent = self._send_region(head)
                else:
                    self._read_cold(head)
                    return
                self._consume(sent)
        except (BlockingIOError, InterruptedError):
            self._arm_writer()
            return
        except OSError as error:
            self._on_send_error(error)
            return
        if self._writer_armed:
            self._writer_armed = False
            self._loop.remove_writer(self._fd)

    def _on_send_error(self, error: OSError) -> None:
        if error.errno not in (errno.EPIPE, errno.ECONNRESET):
            logger.warning("closing connection: %s", error)
        self.close()

    def _send_region(self, region: LogSlice) -> int:
        file = _file_of(region)
        sent = os.sendfile(self._fd, file.fileno(), region.position, min(region.size, SENDFILE_BYTES_MAX))
        if sent == 0:
            raise _too_short(file)
        return sent

    def _send_joined(self) -> int:
        """Sends the leading buffers, small file regions read into memory, in one call."""
        buffers: list[Buffer] = []
        size = 0
        more = 0
        for part in self._output:
            if len(buffers) == BUFFERS_PER_SEND_MAX:
                more = _MSG_MORE
                break
            if not isinstance(part, LogSlice):
                buffers.append(part)
                size += len(part)
            elif size + part.size <= JOINED_BYTES_MAX and _is_sendable(part):
                buffers.append(_file_of(part).pread(part.size, part.position))
                size += part.size
            else:
                more = _MSG_MORE
                break
        if len(buffers) == 1:
            return self._sock.send(buffers[0], more)
        return self._sock.sendmsg(buffers, (), more)

    def _consume(self, sent: int) -> None:
        output = self._output
        self._backlog_bytes -= sent
        if self._backlog_bytes == 0:  # As a rule.
            output.clear()
            return
        while sent:
            head = output[0]
            size = head.size if isinstance(head, LogSlice) else len(head)
            if sent < size:
                output[0] = _after(head, sent)
                return
            output.popleft()
            sent -= size

    def _arm_writer(self) -> None:
        if not self._writer_armed:
            self._writer_armed = True
            self._loop.add_writer(self._fd, self._on_writable)

    def _on_writable(self) -> None:
        self._flush()
        if not self._closed and self._connection is not None:
            self._connection.on_room()

    def _read_cold(self, region: LogSlice) -> None:
        if self._writer_armed:
            self._writer_armed = False
            self._loop.remove_writer(self._fd)
        self._reading_cold = self._loop.create_task(self._send_read(region), name="read from disk")

    async def _send_read(self, region: LogSlice) -> None:
        try:
            data = await self._workers.run(_read_step, region)
        except OSError as error:
            self._reading_cold = None
            logger.error("cannot read %s: %s", _file_of(region).path, error)
            self.close()
            return
        self._reading_cold = None
        if self._closed:
            return
        self._output.popleft()
        if len(data) < region.size:
            self._output.appendleft(_after(region, len(data)))
        self._output.appendleft(data)
        self._on_writable()

    # -- closing -----------------------------------------------------------------------------------------------------

    def _send_rest(self) -> None:
        """Answers that are ready, as far as they go at once: who half-closes, or sends nonsense next, still gets them."""
        if self._writer_armed or self._reading_cold is not None:
            return
        with suppress(OSError):
            while self._output and not isinstance(self._output[0], LogSlice):
                self._consume(self._send_joined())

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._send_rest()
        self.pause_reading()
        if self._writer_armed:
            self._loop.remove_writer(self._fd)
        if self._reading_cold is not None:
            self._reading_cold.cancel()
        self._output.clear()
        self._backlog_bytes = 0
        self._sock.close()
        self._memory.finished(self)
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.on_closed()
