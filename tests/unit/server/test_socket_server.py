"""Listening sockets with real clients' ends: who is let in, who is closed, what a connection knows of its peer."""

import asyncio
import logging
import socket
import struct
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from ottla.broker.request import Parts, Peer, RequestContext
from ottla.server.connection_limit import ConnectionLimit
from ottla.server.real_workers import RealWorkers
from ottla.server.receiving_connection import LARGE_REQUEST_BYTES, PROGRESS_BYTES_MIN
from ottla.server.socket_server import REFUSAL_LINE_SECONDS, STALLED_SECONDS_MAX, WAITING_SECONDS_MAX, SocketServer
from tests.unit.fakes import FakeClock

IDLE_SECONDS_MAX = 600.0
WAITING = b"\0\0\0\x40\0\x12\0\0\0\0\0\x01\xff\xff" + bytes(54)
REQUEST = b"\0\0\0\x0a\0\x12\0\0\0\0\0\x01\xff\xff"
DECLARED_BYTES = 50 << 20


class Answering:
    """Answers every request with one byte and remembers who asked; a request with a body waits for ever."""

    def __init__(self) -> None:
        self.peers: list[Peer] = []

    def begin(self, frame: memoryview, peer: Peer) -> RequestContext:
        self.peers.append(peer)
        return RequestContext(18, 0, 1, None, peer)

    def answer_at_once(self, context: RequestContext, frame: memoryview) -> Parts | None:
        return None

    def answer(self, context: RequestContext, frame: memoryview) -> Coroutine[Any, Any, Parts | None]:
        async def answer() -> Parts:
            if len(frame) > len(REQUEST):
                await asyncio.get_running_loop().create_future()
            return [b"!"]

        return answer()


class World:
    def __init__(
        self,
        *,
        connections_max: int = 100,
        request_memory_bytes: int = 1 << 20,
        idle_seconds_max: float = IDLE_SECONDS_MAX,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.clock = FakeClock()
        self.workers = RealWorkers(loop, 1)
        self.service = Answering()
        self.server = SocketServer(
            loop=loop,
            clock=self.clock,
            workers=self.workers,
            request_bytes_max=100 << 20,
            request_memory_bytes=request_memory_bytes,
            idle_seconds_max=idle_seconds_max,
            connection_limit=ConnectionLimit(count=connections_max, setting="max.connections"),
        )
        self.port = self.server.bind("PLAINTEXT", "127.0.0.1", 0)
        self.server.serve(self.service)

    async def connect(self) -> socket.socket:
        sock = socket.socket()
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        return sock

    async def connect_with_half_a_request(self, size: int) -> socket.socket:
        sock = await self.connect()
        await self.send(sock, DECLARED_BYTES.to_bytes(4, "big") + bytes(size))
        return sock

    async def send(self, sock: socket.socket, data: bytes) -> None:
        """Until the server has read it, or wants to read no more of it."""
        await asyncio.get_running_loop().sock_sendall(sock, data)
        await asyncio.sleep(0.01)

    def sweep_after(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.server._sweep()

    async def close(self) -> None:
        self.server.stop_listening()
        await self.server.drain(0)
        self.workers.close()


async def ask(sock: socket.socket) -> bytes:
    """The answer, or nothing where the connection is closed."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(10):
        try:
            await loop.sock_sendall(sock, REQUEST)
            return await loop.sock_recv(sock, 10)
        except ConnectionError:
            return b""


def test_past_the_cap_connections_are_refused_until_one_goes() -> None:
    async def scene() -> None:
        world = World(connections_max=2)
        first, second = await world.connect(), await world.connect()
        assert [await ask(first), await ask(second)] == [b"!", b"!"]
        refused = await world.connect()
        assert await ask(refused) == b""
        first.close()
        await asyncio.sleep(0.01)
        assert await ask(await world.connect()) == b"!"
        await world.close()

    asyncio.run(scene())


def test_refusals_name_their_cause_once_a_second(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        world = World(connections_max=1)
        served = await world.connect()
        assert await ask(served) == b"!"
        for _ in range(3):
            assert await ask(await world.connect()) == b""
        world.clock.advance(REFUSAL_LINE_SECONDS)
        assert await ask(await world.connect()) == b""
        await world.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(scene())
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert "max.connections" in lines[0] and "1 refused" in lines[0]
    assert "4 refused" in lines[1]


def test_a_connection_without_a_request_for_too_long_is_closed() -> None:
    async def scene() -> None:
        world = World()
        idle, busy = await world.connect(), await world.connect()
        assert await ask(idle) == await ask(busy) == b"!"
        world.sweep_after(IDLE_SECONDS_MAX - 1)
        assert await ask(busy) == b"!"
        world.sweep_after(2)
        assert await ask(idle) == b""
        assert await ask(busy) == b"!"
        await world.close()

    asyncio.run(scene())


def test_a_negative_limit_lets_connections_idle_for_ever() -> None:
    async def scene() -> None:
        world = World(idle_seconds_max=-0.001)
        idle = await world.connect()
        assert await ask(idle) == b"!"
        world.sweep_after(10 * IDLE_SECONDS_MAX)
        assert await ask(idle) == b"!"
        await world.close()

    asyncio.run(scene())


@pytest.mark.parametrize("size", [127_000, 200_000])
def test_half_requests_that_do_not_get_on_are_given_up_when_memory_is_exceeded(size: int) -> None:
    async def scene() -> None:
        world = World(request_memory_bytes=300_000)
        stalled = [await world.connect_with_half_a_request(size) for _ in range(4)]
        assert world.server.memory.is_exceeded
        world.sweep_after(1)  # Their bytes are news, once.
        world.sweep_after(STALLED_SECONDS_MAX - 1)
        assert len(world.server.connections) == 4
        honest = await world.connect()
        assert await ask(honest) == b"!"
        world.sweep_after(WAITING_SECONDS_MAX if size > LARGE_REQUEST_BYTES else 2)
        assert [await ask(sock) for sock in stalled] == [b""] * 4
        assert await ask(honest) == b"!"
        assert world.server.memory.used_bytes == 0
        await world.close()

    asyncio.run(scene())


def test_half_requests_may_take_their_time_while_there_is_memory() -> None:
    async def scene() -> None:
        world = World(request_memory_bytes=300_000)
        await world.connect_with_half_a_request(127_000)
        world.sweep_after(1)
        world.sweep_after(2 * WAITING_SECONDS_MAX)
        assert len(world.server.connections) == 1
        await world.close()

    asyncio.run(scene())


def test_a_slow_upload_that_gets_on_outlives_one_that_trickles() -> None:
    async def scene() -> None:
        world = World(request_memory_bytes=100_000)
        slow, trickling = [await world.connect_with_half_a_request(100_000) for _ in range(2)]
        world.sweep_after(1)
        for _ in range(3):
            await world.send(slow, bytes(PROGRESS_BYTES_MIN))
            await world.send(trickling, bytes(100))
            world.sweep_after(STALLED_SECONDS_MAX / 2)
        assert len(world.server.connections) == 1
        assert await ask(trickling) == b""
        await world.close()

    asyncio.run(scene())


def test_who_waits_for_memory_is_not_blamed_for_standing_still() -> None:
    async def scene() -> None:
        world = World(request_memory_bytes=100_000)
        stalled = await world.connect_with_half_a_request(200_000)  # The one that is let through.
        waiting = await world.connect_with_half_a_request(200_000)
        world.sweep_after(1)
        world.sweep_after(STALLED_SECONDS_MAX + 1)
        assert await ask(stalled) == b""
        assert len(world.server.connections) == 1  # Its turn came with the sweep that closed the other.
        await world.send(waiting, bytes(200_000))
        world.sweep_after(1)
        assert len(world.server.connections) == 1
        await world.close()

    asyncio.run(scene())


def test_who_hangs_up_while_a_request_waits_and_another_is_held_back_is_let_go() -> None:
    async def scene() -> None:
        world = World()
        loop = asyncio.get_running_loop()
        gone, there = await world.connect(), await world.connect()
        for sock in (gone, there):
            await loop.sock_sendall(sock, WAITING + REQUEST)
        while len(world.service.peers) < 2:
            await asyncio.sleep(0.001)
        gone.close()
        await asyncio.sleep(0.01)
        assert len(world.server.connections) == 2  # Nothing is read, so nobody has noticed.
        world.sweep_after(1)
        assert len(world.server.connections) == 1
        assert world.server.memory.used_bytes > 0
        there.close()
        world.sweep_after(1)
        await asyncio.sleep(0)
        assert not world.server.connections
        assert world.server.memory.used_bytes == 0
        await world.close()

    asyncio.run(scene())


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("sent", [REQUEST[:10], WAITING], ids=["half", "waiting"])
def test_who_dies_right_behind_its_data_is_let_go(
    new_loop: Callable[[], asyncio.AbstractEventLoop], sent: bytes
) -> None:
    """uvloop tells of a reset once, together with the data before it, and never again."""

    async def scene() -> None:
        world = World()
        dying = await world.connect()
        while not world.server.connections:
            await asyncio.sleep(0.001)
        dying.send(sent)
        dying.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        dying.close()
        for _ in range(10):
            await asyncio.sleep(0.001)
        world.sweep_after(1)
        assert not world.server.connections
        await world.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(scene())


def test_a_connection_knows_the_address_that_it_came_to() -> None:
    async def scene() -> None:
        world = World()
        assert await ask(await world.connect()) == b"!"
        (peer,) = world.service.peers
        assert (peer.host, peer.listener, peer.local_host) == ("127.0.0.1", "PLAINTEXT", "127.0.0.1")
        await world.close()

    asyncio.run(scene())
