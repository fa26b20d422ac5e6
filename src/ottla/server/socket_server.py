"""Listening sockets and the connections they gave: accept, bounds, idle sweep, drain.

Every listener has a name (the security protocol's or an alias), a bind address and an advertised one. All of them feed the
same dispatcher; the name tells the Metadata handler which address to answer.
"""

import asyncio
import errno
import logging
import select
import socket
from math import inf
from typing import Final

from ottla.base.clock import Clock
from ottla.base.workers import Workers
from ottla.broker.request import Peer
from ottla.server.connection import Connection, Service
from ottla.server.connection_limit import ConnectionLimit
from ottla.server.request_memory import RequestMemory, Scratch
from ottla.server.socket_transport import SocketTransport
from ottla.server.turn_end import TurnEnd

logger = logging.getLogger(__name__)

ACCEPTS_PER_EVENT_MAX: Final = 64
ACCEPT_RETRY_SECONDS: Final = 0.2  # Out of file descriptors: those that exist are served meanwhile.
LISTEN_BACKLOG: Final = 1024
SWEEP_SECONDS: Final = 5.0
SWEEP_SECONDS_MIN: Final = 0.1  # However short connections.max.idle.ms is.
EXCEEDED_SWEEP_SECONDS: Final = 1.0  # While others wait for the memory that somebody holds.
STALLED_SECONDS_MAX: Final = 10.0  # For PROGRESS_BYTES_MIN of a request while memory is exceeded: some 6 KiB a second.
WAITING_SECONDS_MAX: Final = 30.0  # For memory: by then clients have given their request up (request.timeout.ms).
REFUSAL_LINE_SECONDS: Final = 1.0
DRAIN_POLL_SECONDS: Final = 0.005  # Once in a process's life; an event per connection would cost all of it.
_OUT_OF_RESOURCES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class SocketServer:
    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        workers: Workers,
        request_bytes_max: int,
        request_memory_bytes: int,
        idle_seconds_max: float,
        connection_limit: ConnectionLimit,
        send_buffer_bytes: int | None = None,
        receive_buffer_bytes: int | None = None,
    ) -> None:
        self._loop = loop
        self._service: Service | None = None
        self._clock = clock
        self._workers = workers
        self._request_bytes_max = request_bytes_max
        self._idle_seconds_max = idle_seconds_max if idle_seconds_max >= 0 else inf
        self._connection_limit = connection_limit
        self._refused_count = 0
        self._refusal_told_at = -inf
        self._send_buffer_bytes = send_buffer_bytes
        self._receive_buffer_bytes = receive_buffer_bytes
        self._scratch = Scratch()
        self._turn_end = TurnEnd(loop)
        self.memory = RequestMemory(request_memory_bytes)
        self._sockets: dict[socket.socket, str] = {}
        self.connections: dict[Connection, SocketTransport] = {}
        self._sweep_seconds = max(min(SWEEP_SECONDS, self._idle_seconds_max / 2), SWEEP_SECONDS_MIN)
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._is_out_of_descriptors = False

    # -- listening ---------------------------------------------------------------------------------------------------

    def bind(self, name: str, host: str, port: int) -> int:
        """Binds every address of `host`; returns the port (chosen by the system for port 0). Accepts from `serve` on."""
        addresses = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        bound: list[socket.socket] = []
        for family, kind, protocol, _, address in addresses:
            if bound and port == 0:
                address = (address[0], bound[0].getsockname()[1], *address[2:])
            sock = socket.socket(family, kind, protocol)
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                sock.bind(address)
                sock.listen(LISTEN_BACKLOG)
            except OSError as error:
                sock.close()
                if bound and error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    continue  # A host without IPv6 still serves IPv4.
                if family == socket.AF_INET6 and len(addresses) > 1 and error.errno != errno.EADDRINUSE:
                    continue
                raise
            bound.append(sock)
        if not bound:
            raise OSError(errno.EADDRNOTAVAIL, f"no address of {host!r} can be bound")
        self._sockets |= dict.fromkeys(bound, name)
        return int(bound[0].getsockname()[1])

    def serve(self, service: Service) -> None:
        """From here on connections are accepted; those that came earlier wait in the backlog."""
        self._service = service
        for sock, name in self._sockets.items():
            self._loop.add_reader(sock, self._on_acceptable, sock, name)
        self._sweep_timer = self._loop.call_later(self._sweep_seconds, self._sweep)

    def _on_acceptable(self, listening: socket.socket, name: str) -> None:
        for _ in range(ACCEPTS_PER_EVENT_MAX):
            try:
                sock, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_RESOURCES:
                    raise
                if not self._is_out_of_descriptors:
                    logger.error("cannot accept connections: %s; raise the limit of open files (ulimit -n)", error)
                self._is_out_of_descriptors = True
                self._loop.remove_reader(listening)
                self._loop.call_later(ACCEPT_RETRY_SECONDS, self._accept_again, listening, name)
                return
            self._is_out_of_descriptors = False
            if len(self.connections) >= self._connection_limit.count:
                sock.close()
                self._tell_refusal(address[0])
                continue
            local_host = sock.getsockname()[0]
            self._open(sock, Peer(host=address[0], port=address[1], listener=name, local_host=local_host))

    def _tell_refusal(self, host: str) -> None:
        """A client that is refused tries again at once: not every time is worth a line."""
        self._refused_count += 1
        now = self._clock.monotonic()
        if now - self._refusal_told_at >= REFUSAL_LINE_SECONDS:
            self._refusal_told_at = now
            logger.warning(
                "refusing connection from %s: %d are open, all that %s allows; %d refused so far",
                host, len(self.connections), self._connection_limit.setting, self._refused_count,
            )  # fmt: skip

    def _accept_again(self, listening: socket.socket, name: str) -> None:
        if listening in self._sockets:
            self._loop.add_reader(listening, self._on_acceptable, listening, name)

    def _open(self, sock: socket.socket, peer: Peer) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._send_buffer_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer_bytes)
        if self._receive_buffer_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)
        assert self._service is not None
        transport = SocketTransport(self._loop, sock, self._workers, self.memory, self._turn_end)
        connection = Connection(
            transport=transport,
            service=self._service,
            peer=peer,
            clock=self._clock,
            scratch=self._scratch,
            memory=self.memory,
            request_bytes_max=self._request_bytes_max,
            on_closed=self._forget,
        )
        self.connections[connection] = transport
        transport.start(connection)

    def _forget(self, connection: Connection) -> None:
        del self.connections[connection]

    # -- sweeping and stopping ---------------------------------------------------------------------------------------

    def _sweep(self) -> None:
        """Closes connections on which nothing got on for `connections.max.idle.ms`, or whose peer is gone unnoticed
        while a request waits; quiet ones give buffers back.
        """
        now = self._clock.monotonic()
        for connection in self.connections:
            connection.note_progress()
        if self.memory.is_exceeded:
            self._close_stalled(now)
        for connection in self._abandoned():
            connection.close()
        for connection in tuple(self.connections):
            quiet = now - connection.last_active
            if quiet > self._idle_seconds_max:
                connection.close()
            elif quiet > SWEEP_SECONDS:
                connection.release_idle_buffer()
        seconds = min(self._sweep_seconds, EXCEEDED_SWEEP_SECONDS) if self.memory.is_exceeded else self._sweep_seconds
        self._sweep_timer = self._loop.call_later(seconds, self._sweep)

    def _abandoned(self) -> list[Connection]:
        """One system call for all of them."""
        poll = select.poll()
        watched = {transport.watch_hang_up(poll): connection for connection, transport in self.connections.items()}
        return [watched[fd] for fd, _ in poll.poll(0)]

    def _close_stalled(self, now: float) -> None:
        """Whose request does not get on goes. One that waits for memory cannot, and has longer.

        All are judged before any is closed, because that ends the wait of others.
        """
        stalled = [
            connection
            for connection, transport in self.connections.items()
            if connection.holds_half_request
            and now - connection.last_active
            > (WAITING_SECONDS_MAX if self.memory.is_waiting(transport) else STALLED_SECONDS_MAX)
        ]
        if stalled:
            logger.warning(
                "closing connection from %s and %d more: half a request each, and its memory is needed",
                stalled[0].peer, len(stalled) - 1,
            )  # fmt: skip
        for connection in stalled:
            connection.close()

    def send_clients_away(self) -> None:
        """All but other nodes; who asks later is told then."""
        for connection in tuple(self.connections):
            connection.send_away()

    def stop_listening(self) -> None:
        for sock in self._sockets:
            self._loop.remove_reader(sock)
            sock.close()
        self._sockets.clear()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()

    async def drain(self, timeout_seconds: float) -> None:
        """Answers what is under way, for at most `timeout_seconds`, then closes every connection."""
        deadline = self._clock.monotonic() + timeout_seconds
        for connection in self.connections:
            connection.drain()
        while any(one.busy for one in self.connections) and self._clock.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(DRAIN_POLL_SECONDS)
        for connection in tuple(self.connections):
            connection.close()
