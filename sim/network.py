"""Connections in memory between clients and one node: bytes arrive late, in pieces, or not at all.

A connection keeps the order of its bytes, as TCP does; how they are cut, how long each piece takes and whether the
connection breaks on the way come from the seed. The node's side is the `Transport` of server/connection.py, the
client's side sends bytes and awaits frames.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from dataclasses import dataclass
from random import Random
from struct import Struct
from typing import Final, Protocol

from ottla.broker.request import Part, Parts
from sim.trace import Trace

_SIZE: Final = Struct(">i")


class ServerConnection(Protocol):
    """What the node puts behind a transport: server/connection.py."""

    def get_buffer(self) -> memoryview: ...

    def buffer_updated(self, count: int) -> None: ...

    def on_room(self) -> None: ...

    def on_closed(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFaults:
    delay_seconds_max: float = 0.005
    piece_bytes_max: int = 4_096  # Frames are cut into pieces of at most this size, often smaller.
    reset_probability: float = 0.0  # Of every piece, to break the connection instead of arriving.


CALM: Final = NetworkFaults()


class _Pipe:
    """One direction of a connection. Pieces arrive in the order in which they were sent."""

    def __init__(
        self, network: "SimulatedNetwork", name: str, arrive: Callable[[bytes], None], context: Context
    ) -> None:
        self._network = network
        self._context = context
        self._name = name
        self._arrive = arrive
        self._pieces: deque[bytes] = deque()
        self._last_arrival = 0.0
        self.on_reset: Callable[[], None] = lambda: None
        self.broken = False

    def send(self, data: bytes) -> None:
        network = self._network
        start = 0
        while start < len(data) and not self.broken:
            piece = data[start : start + network.chance.randint(1, network.faults.piece_bytes_max)]
            start += len(piece)
            delay = network.chance.random() * network.faults.delay_seconds_max
            self._last_arrival = max(self._last_arrival, network.loop.time() + delay)
            self._pieces.append(piece)
            network.loop.call_at(self._last_arrival, self._deliver, context=self._context.copy())

    def _deliver(self) -> None:
        if self.broken:
            return
        piece = self._pieces.popleft()
        if self._network.chance.random() < self._network.faults.reset_probability:
            self._network.trace.add("reset", self._name)
            self.on_reset()
            return
        self._network.trace.add("deliver", self._name, len(piece))
        self._arrive(piece)

    def break_off(self) -> None:
        self.broken = True
        self._pieces.clear()


class SimulatedTransport:
    """The node's end: implements `Transport` of server/connection.py."""

    def __init__(self, network: "SimulatedNetwork", name: str) -> None:
        self._network = network
        self._connection: ServerConnection | None = None
        self.context = copy_context()  # The node's: what its connection does and starts belongs to the node.
        self._inbox = bytearray()
        self._reading = True
        self._closed = False
        self._backlog_bytes = 0
        self.client = SimulatedSocket(self, name)
        self._to_client = _Pipe(network, f"{name}<", self._on_arrived_at_client, self.context)
        self.to_server = _Pipe(network, f"{name}>", self._on_arrived, self.context)
        self._to_client.on_reset = self.to_server.on_reset = self.close

    def start(self, connection: ServerConnection) -> None:
        self._connection = connection

    def write(self, parts: Parts) -> None:
        if not self._closed:
            try:
                data = b"".join(content_of(part) for part in parts)
            except OSError:  # A segment that cannot be read ends the connection, as on a real socket.
                self.close()
                return
            self._backlog_bytes += len(data)
            self._to_client.send(data)

    def backlog_bytes(self) -> int:
        return self._backlog_bytes

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._reading:
            self._reading = True
            self._network.loop.call_soon(self._pump)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._network.loop.call_soon(callback)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._network.trace.add("close", self.client.name)
        self._to_client.break_off()
        self.to_server.break_off()
        self.client.on_closed()
        if self._connection is not None:
            self.context.copy().run(self._connection.on_closed)

    def abandon(self) -> None:
        """The node's machine is gone: the client notices, the connection does not."""
        self._connection = None
        self.close()

    def _on_arrived(self, piece: bytes) -> None:
        self._inbox += piece
        self._pump()

    def _pump(self) -> None:
        while self._inbox and self._reading and not self._closed:
            assert self._connection is not None
            buffer = self._connection.get_buffer()
            count = self._network.chance.randint(1, min(len(buffer), len(self._inbox)))
            buffer[:count] = self._inbox[:count]
            del self._inbox[:count]
            self._connection.buffer_updated(count)

    def _on_arrived_at_client(self, piece: bytes) -> None:
        self._backlog_bytes -= len(piece)
        self.client.on_arrived(piece)
        if self._connection is not None:
            self._connection.on_room()


class SimulatedSocket:
    """The client's end: `send` bytes, `await receive()` one size-prefixed frame (without its prefix)."""

    def __init__(self, transport: SimulatedTransport, name: str) -> None:
        self._transport = transport
        self._inbox = bytearray()
        self._waiter: asyncio.Future[None] | None = None
        self.name = name
        self.closed = False

    def send(self, data: bytes) -> None:
        if self.closed:
            raise ConnectionResetError(f"{self.name} is closed")
        self._transport.to_server.send(data)

    async def receive(self) -> bytes:
        while True:
            if len(self._inbox) >= _SIZE.size:
                (size,) = _SIZE.unpack_from(self._inbox)
                end = _SIZE.size + size
                if len(self._inbox) >= end:
                    frame = bytes(self._inbox[_SIZE.size : end])
                    del self._inbox[:end]
                    return frame
            if self.closed:
                raise ConnectionResetError(f"{self.name} is closed")
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    def close(self) -> None:
        self._transport.close()

    def on_arrived(self, piece: bytes) -> None:
        self._inbox += piece
        self._wake()

    def on_closed(self) -> None:
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class SimulatedNetwork:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, chance: Random, trace: Trace, faults: NetworkFaults = CALM
    ) -> None:
        self.loop = loop
        self.chance = chance
        self.trace = trace
        self.faults = faults
        self._connection_count = 0
        self._transports: list[SimulatedTransport] = []

    def connect(
        self, accept: Callable[[SimulatedTransport], ServerConnection], context: Context | None = None
    ) -> SimulatedSocket:
        """A new connection; `accept` is the node's side, which builds its connection on the transport.

        In `context` runs whatever the node does for the connection.
        """
        context = context or copy_context()
        self._connection_count += 1
        transport = context.run(SimulatedTransport, self, f"connection-{self._connection_count}")
        transport.start(context.run(accept, transport))
        self._transports.append(transport)
        self.trace.add("connect", transport.client.name)
        return transport.client

    def abandon_all(self) -> None:
        """The node's machine is gone."""
        transports, self._transports = self._transports, []
        for transport in transports:
            transport.abandon()


def content_of(part: Part) -> bytes:
    if isinstance(part, bytes | bytearray | memoryview):
        return bytes(part)
    return b"" if part.file is None else part.file.pread(part.size, part.position)
