"""The socket side of a connection over a real socket pair and a real file: everything arrives once, in order."""

import asyncio
import errno
import itertools
import os
import random
import socket
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.request import Parts, Peer, RequestContext
from ottla.log.partition_log import LogSlice
from ottla.server.connection import Connection
from ottla.server.real_clock import RealClock
from ottla.server.real_disk import RealDisk, RealFile
from ottla.server.real_workers import RealWorkers
from ottla.server.request_memory import RequestMemory, Scratch
from ottla.server.socket_transport import BYTES_PER_EVENT_MAX, JOINED_BYTES_MAX, SENDFILE_BYTES_MAX, SocketTransport
from ottla.server.turn_end import TurnEnd


class ColdFile(RealFile):
    """Never in the page cache; only workers may read it."""

    __slots__ = ()

    def is_cached(self, position: int, size: int) -> bool:
        return False

    def pread(self, size: int, position: int) -> bytes:
        assert threading.current_thread() is not threading.main_thread()
        return super().pread(size, position)


class Listening:
    """Stands for the connection: keeps what it receives."""

    def __init__(self) -> None:
        self.peer = Peer(host="10.0.0.9", port=5, listener="PLAINTEXT")
        self.buffer = memoryview(bytearray(10))
        self.received = b""
        self.must_grow = False
        self.can_answers_wait = False
        self.rooms = 0
        self.closed = False

    def get_buffer(self) -> memoryview:
        return self.buffer

    def buffer_updated(self, count: int) -> None:
        self.received += bytes(self.buffer[:count])

    def on_room(self) -> None:
        self.rooms += 1

    def on_closed(self) -> None:
        self.closed = True


class Torrent(socket.socket):
    """More is always there."""

    def recv_into(self, buffer: Any, *arguments: Any) -> int:
        return len(buffer)


class Ends:
    def __init__(self, kind: type[socket.socket] = socket.socket, connection: Listening | None = None) -> None:
        loop = asyncio.get_running_loop()
        ours, self.theirs = socket.socketpair()
        ours = kind(fileno=ours.detach())
        ours.setblocking(False)
        self.theirs.setblocking(False)
        self.workers = RealWorkers(loop, 2)
        self.transport = SocketTransport(loop, ours, self.workers, RequestMemory(1 << 20), TurnEnd(loop))
        self.connection = connection or Listening()
        self.transport.start(self.connection)  # type: ignore[arg-type]

    async def read(self, size: int) -> bytes:
        loop = asyncio.get_running_loop()
        data = b""
        while len(data) < size:
            async with asyncio.timeout(10):
                chunk = await loop.sock_recv(self.theirs, 1 << 16)
            assert chunk, "closed early"
            data += chunk
        return data

    def close(self) -> None:
        self.transport.close()
        self.theirs.close()
        self.workers.close()


def run(scene: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scene)


def segment(tmp_path: Path, content: bytes, kind: type[RealFile] = RealFile) -> RealFile:
    path = tmp_path / "segment.log"
    path.write_bytes(content)
    opened = RealDisk().open(str(path))
    return opened if kind is RealFile else kind(opened.path, os.dup(opened.fileno()))


def region(file: RealFile, position: int, size: int, *, is_recent: bool = False) -> LogSlice:
    return LogSlice(file, position, size, 0, is_recent)


@pytest.mark.parametrize("kind", [RealFile, ColdFile])
@pytest.mark.parametrize("seed", range(8))
def test_buffers_and_regions_arrive_in_order(tmp_path: Path, kind: type[RealFile], seed: int) -> None:
    async def scene() -> None:
        random_ = random.Random(seed)
        content = random_.randbytes(4 << 20)
        file = segment(tmp_path, content, kind)
        ends = Ends()
        expected = b""
        for _ in range(6):
            parts: Parts = []
            for _ in range(random_.randrange(1, 5)):
                head = random_.randbytes(random_.choice([0, 1, 70, 5_000]))
                size = random_.choice([1, 100, JOINED_BYTES_MAX, JOINED_BYTES_MAX + 1, SENDFILE_BYTES_MAX + 7])
                position = random_.randrange(len(content) - size)
                parts += [head, region(file, position, size), bytearray()]
                expected += head + content[position : position + size]
            ends.transport.write(parts)
        assert await ends.read(len(expected)) == expected
        await asyncio.sleep(0.01)
        assert ends.transport.backlog_bytes() == 0
        ends.close()

    run(scene())


def test_nothing_to_send_is_no_work() -> None:
    async def scene() -> None:
        ends = Ends()
        ends.transport.write([b"", bytearray()])
        assert ends.transport.backlog_bytes() == 0
        ends.transport.write([b"x"])
        assert await ends.read(1) == b"x"
        ends.close()

    run(scene())


def test_a_peer_that_does_not_read_is_a_backlog(tmp_path: Path) -> None:
    async def scene() -> None:
        file = segment(tmp_path, b"z" * (8 << 20))
        ends = Ends()
        ends.transport.write([region(file, 0, 8 << 20)])
        await asyncio.sleep(0.05)
        assert ends.transport.backlog_bytes() > 0
        assert await ends.read(8 << 20) == b"z" * (8 << 20)
        await asyncio.sleep(0.01)
        assert ends.transport.backlog_bytes() == 0
        assert ends.connection.rooms > 0
        ends.close()

    run(scene())


def test_reading_fills_the_buffer_of_the_connection() -> None:
    async def scene() -> None:
        ends = Ends()
        ends.theirs.send(b"0123456789abcdef")
        await asyncio.sleep(0.02)
        assert ends.connection.received == b"0123456789abcdef"
        ends.transport.pause_reading()
        ends.theirs.send(b"more")
        await asyncio.sleep(0.02)
        assert ends.connection.received == b"0123456789abcdef"
        ends.transport.resume_reading()
        await asyncio.sleep(0.02)
        assert ends.connection.received.endswith(b"more")
        ends.close()

    run(scene())


def test_a_peer_that_is_gone_closes_us(tmp_path: Path) -> None:
    async def scene() -> None:
        file = segment(tmp_path, b"z" * (8 << 20))
        ends = Ends()
        ends.transport.write([region(file, 0, 8 << 20)])
        ends.theirs.close()
        await asyncio.sleep(0.05)
        assert ends.connection.closed
        ends.workers.close()

    run(scene())


def test_a_segment_shorter_than_told_closes_the_connection(tmp_path: Path) -> None:
    async def scene() -> None:
        file = segment(tmp_path, b"z" * 100)
        ends = Ends()
        ends.transport.write([b"head", region(file, 0, 1 << 20, is_recent=True)])
        await asyncio.sleep(0.05)
        assert ends.connection.closed
        ends.workers.close()

    run(scene())


class LargeAnswers:
    """Answers every request with two megabytes of its first byte."""

    def begin(self, frame: memoryview, peer: Peer) -> RequestContext:
        return RequestContext(1, 0, 0, None, peer)

    def answer_at_once(self, context: RequestContext, frame: memoryview) -> Parts | None:
        return None

    async def answer(self, context: RequestContext, frame: memoryview) -> Parts | None:
        return [bytes(frame[:1]) * (2 << 20)]


class EagerSocket:
    """Gives its requests one a read and takes every answer at once."""

    def __init__(self, requests: list[bytes]) -> None:
        self.requests = requests
        self.sent = b""

    def fileno(self) -> int:
        return 99

    def recv_into(self, buffer: memoryview) -> int:
        if not self.requests:
            raise BlockingIOError
        request = self.requests.pop(0)
        buffer[: len(request)] = request
        return len(request)

    def send(self, data: memoryview, flags: int) -> int:
        self.sent += data
        return len(data)

    def sendmsg(self, buffers: list[memoryview], ancillary: tuple[()], flags: int) -> int:
        return sum(self.send(buffer, flags) for buffer in buffers)


@pytest.mark.parametrize(("api_key", "is_sent_at_once"), [(0, True), (1, True), (8, False)])
def test_answers_but_for_produce_and_fetch_wait_for_the_end_of_the_turn(api_key: int, is_sent_at_once: bool) -> None:
    class Answers(LargeAnswers):
        def begin(self, frame: memoryview, peer: Peer) -> RequestContext:
            return RequestContext(api_key, 0, 0, None, peer)

    sock, loop, memory = EagerSocket([b"\x00\x00\x00\x08" + b"a" * 8]), IdleLoop(), RequestMemory(1 << 20)
    transport = SocketTransport(loop, sock, None, memory, TurnEnd(loop))  # type: ignore[arg-type]
    transport.start(connection_of(transport, Answers(), memory))
    loop.callback()
    assert bool(sock.sent) == is_sent_at_once
    loop.end_turn()
    assert sock.sent == b"a" * (2 << 20)


class IdleLoop:
    def __init__(self) -> None:
        self.callback: Any = None
        self._soon: list[Any] = []

    def call_soon(self, callback: Any) -> None:
        self._soon.append(callback)

    def end_turn(self) -> None:
        soon, self._soon = self._soon, []
        for callback in soon:
            callback()

    def add_reader(self, descriptor: int, callback: Any) -> None:
        self.callback = callback

    def remove_reader(self, descriptor: int) -> None:
        self.callback = None


def connection_of(transport: SocketTransport, service: LargeAnswers, memory: RequestMemory) -> Connection:
    return Connection(
        transport=transport,
        service=service,
        peer=Peer(host="h", port=1, listener="PLAINTEXT"),
        clock=RealClock(),
        scratch=Scratch(),
        memory=memory,
        request_bytes_max=1000,
        on_closed=lambda connection: None,
    )


def test_who_half_closes_still_gets_the_answers() -> None:
    class Answering(Listening):
        can_answers_wait = True

        def buffer_updated(self, count: int) -> None:
            ends.transport.write([b"answer", b"answer"])

    async def scene() -> None:
        ends.theirs.send(b"request")
        ends.theirs.shutdown(socket.SHUT_WR)
        assert await ends.read(12) == b"answer" * 2
        ends.close()

    async def opened() -> Ends:
        return Ends(connection=Answering())

    with asyncio.Runner() as runner:
        ends = runner.run(opened())
        runner.run(scene())


def test_requests_behind_a_large_answer_are_answered() -> None:
    """The answers wait in the cork, count as a backlog, and are taken at once: nobody else wakes the connection."""
    requests = [b"\x00\x00\x00\x08" + letter * 8 for letter in (b"a", b"b", b"c")]
    sock, loop, memory = EagerSocket([requests[0] + requests[1], requests[2]]), IdleLoop(), RequestMemory(1 << 20)
    transport = SocketTransport(loop, sock, None, memory, TurnEnd(loop))  # type: ignore[arg-type]
    transport.start(connection_of(transport, LargeAnswers(), memory))
    for _ in range(5):
        if loop.callback is not None:
            loop.callback()
        loop.end_turn()
    assert sock.sent == b"".join(letter * (2 << 20) for letter in (b"a", b"b", b"c"))


def test_a_request_that_there_is_no_room_for_closes_its_connection_with_the_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Roomless(Listening):
        def get_buffer(self) -> memoryview:
            raise OSError(errno.ENOMEM, "Cannot allocate memory")

    async def scene() -> None:
        ends = Ends(connection=Roomless())
        ends.theirs.send(b"x")
        await asyncio.sleep(0.01)
        assert ends.connection.closed
        assert "closing connection from 10.0.0.9:5: no room for its request" in caplog.text
        ends.close()

    run(scene())


def test_who_sends_without_end_takes_turns_with_others() -> None:
    async def scene() -> None:
        ends = Ends(Torrent)
        ends.connection.buffer = memoryview(bytearray(BYTES_PER_EVENT_MAX // 3))
        ends.theirs.send(b"x")
        turns: list[int] = []
        while len(turns) < 3:
            turns.append(len(ends.connection.received))
            await asyncio.sleep(0)
        ends.close()
        assert turns[-1] > 0
        assert all(later - sooner <= 4 / 3 * BYTES_PER_EVENT_MAX for sooner, later in itertools.pairwise(turns))

    run(scene())
