"""A connection without a socket: a transport that remembers and a service that echoes."""

import asyncio
from collections.abc import Callable, Coroutine
from struct import Struct
from typing import Any

from ottla.base.errors import ApiError, ProtocolError
from ottla.base.outcome import Outcome
from ottla.broker.request import Parts, Peer, RequestContext
from ottla.server.connection import Connection
from ottla.server.request_memory import RequestMemory, Scratch
from tests.unit.fakes import FakeClock

HEAD = Struct(">hhi")
PRODUCE, FETCH, OFFSET_COMMIT, BROKEN = 0, 1, 8, 99
REQUEST_BYTES_MAX = 4 << 20


class FakeTransport:
    def __init__(self) -> None:
        self.written = bytearray()
        self.reading = True
        self.closed = False
        self.unsent = 0
        self.soon: list[Callable[[], None]] = []
        self.connection: Connection | None = None

    def write(self, parts: Parts) -> None:
        for part in parts:
            assert isinstance(part, bytes | bytearray)
            self.written += part

    def backlog_bytes(self) -> int:
        return self.unsent

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            assert self.connection is not None
            self.connection.on_closed()


class EchoService:
    """Answers with the request's body; waits on `gates[correlation id]` first, where there is one. The answer is held
    until `commits[correlation id]` is known, where there is one."""

    def __init__(self) -> None:
        self.gates: dict[int, asyncio.Future[None]] = {}
        self.commits: dict[int, Outcome] = {}
        self.client_id: str | None = None
        self.started: list[int] = []
        self.cancelled: list[int] = []

    def begin(self, frame: memoryview, peer: Peer) -> RequestContext:
        api_key, version, correlation_id = HEAD.unpack_from(frame)
        if api_key == BROKEN:
            raise ProtocolError("api key 99 is not served")
        return RequestContext(
            api_key, version, correlation_id, self.client_id, peer, HEAD.size, holds_frame=api_key == PRODUCE
        )

    def answer_at_once(self, context: RequestContext, frame: memoryview) -> Parts | None:
        return None

    def answer(self, context: RequestContext, frame: memoryview) -> Coroutine[Any, Any, Parts | None]:
        return self._answer(context, frame)

    async def _answer(self, context: RequestContext, frame: memoryview) -> Parts | None:
        self.started.append(context.correlation_id)
        gate = self.gates.get(context.correlation_id)
        try:
            if gate is not None:
                await gate
        except asyncio.CancelledError:
            self.cancelled.append(context.correlation_id)
            raise
        context.committed = self.commits.get(context.correlation_id)
        return [bytes(frame)]

    def refused(self, context: RequestContext, parts: Parts, error: ApiError) -> Parts:
        return [b"refused" for _ in parts]


class World:
    def __init__(self, memory_bytes: int = 1 << 30) -> None:
        self.transport = FakeTransport()
        self.service = EchoService()
        self.clock = FakeClock()
        self.memory = RequestMemory(memory_bytes)
        self.scratch = Scratch()
        self.connection = Connection(
            transport=self.transport,
            service=self.service,
            peer=Peer(host="10.0.0.9", port=5, listener="PLAINTEXT"),
            clock=self.clock,
            scratch=self.scratch,
            memory=self.memory,
            request_bytes_max=REQUEST_BYTES_MAX,
            on_closed=lambda connection: None,
        )
        self.transport.connection = self.connection

    def receive(self, data: bytes, step: int | None = None) -> None:
        """As a socket would: at most what the buffer takes, at most `step` bytes a read."""
        view = memoryview(data)
        while len(view) and not self.transport.closed:
            assert self.transport.reading, "read while paused"
            buffer = self.connection.get_buffer()
            count = min(len(buffer), len(view), step or len(view))
            buffer[:count] = view[:count]
            self.connection.buffer_updated(count)
            view = view[count:]

    def scribble(self) -> None:
        """Another connection uses the shared buffer."""
        self.scratch.view[:] = b"\xee" * len(self.scratch.view)


def request(correlation_id: int, body: bytes = b"", api_key: int = PRODUCE) -> bytes:
    frame = HEAD.pack(api_key, 1, correlation_id) + body
    return len(frame).to_bytes(4, "big") + frame


def run(scene: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scene)
