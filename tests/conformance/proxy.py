"""A TCP proxy in front of a broker that loses acknowledgements: the request arrives, its answer does not.

It knows just enough of the protocol for that: frames, the API key of each request, and that answers come in the order
of the requests. To lose an answer it cuts the connection instead of passing the answer on, which is what a client sees
when the network fails after the broker has written. The broker's port in Metadata answers is replaced by the proxy's,
so that clients stay on this side.
"""

import asyncio
import contextlib
import struct
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final

PRODUCE: Final = 0
METADATA: Final = 3
LOOPBACK: Final = "127.0.0.1"
INT32: Final = struct.Struct(">i")
INT16: Final = struct.Struct(">h")


class LossyProxy:
    """`loses` is asked at each answer to a produce request, with the number of such answers before it."""

    def __init__(self, upstream_port: int, loses: Callable[[int], bool]) -> None:
        self._upstream_port = upstream_port
        self._loses = loses
        self.port = 0
        self.produce_requests = 0
        self.answers_lost = 0
        self._answers_seen = 0

    @property
    def bootstrap(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    async def serve(self, ready: threading.Event, stop: asyncio.Event) -> None:
        server = await asyncio.start_server(self._on_connection, LOOPBACK, 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        async with server:
            await stop.wait()

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        broker_reader, broker_writer = await asyncio.open_connection(LOOPBACK, self._upstream_port)
        asked: deque[int] = deque()
        requests = asyncio.create_task(self._pass_requests(reader, broker_writer, asked))
        answers = asyncio.create_task(self._pass_answers(broker_reader, writer, asked))
        await asyncio.wait({requests, answers}, return_when=asyncio.FIRST_COMPLETED)
        for task in (requests, answers):
            task.cancel()
        for open_writer in (writer, broker_writer):
            open_writer.close()

    async def _pass_requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: deque[int]
    ) -> None:
        async for frame in frames(reader):
            [api_key] = INT16.unpack_from(frame, INT32.size)
            asked.append(api_key)
            self.produce_requests += api_key == PRODUCE
            writer.write(frame)
            await writer.drain()

    async def _pass_answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: deque[int]
    ) -> None:
        async for frame in frames(reader):
            api_key = asked.popleft()
            if api_key == PRODUCE and self._is_lost():
                return
            writer.write(self._redirected(frame) if api_key == METADATA else frame)
            await writer.drain()

    def _is_lost(self) -> bool:
        lost = self._loses(self._answers_seen)
        self._answers_seen += 1
        self.answers_lost += lost
        return lost

    def _redirected(self, frame: bytes) -> bytes:
        host = LOOPBACK.encode()
        return frame.replace(host + INT32.pack(self._upstream_port), host + INT32.pack(self.port))


async def frames(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Whole frames with their sizes, until the other side goes away."""
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            size = await reader.readexactly(INT32.size)
            yield size + await reader.readexactly(INT32.unpack(size)[0])


@contextlib.contextmanager
def lossy_proxy(upstream_port: int, loses: Callable[[int], bool]) -> Iterator[LossyProxy]:
    """The proxy on a loop of its own thread, gone at the end with its connections."""
    proxy = LossyProxy(upstream_port, loses)
    ready = threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:  # Cancels what is still connected.
            runner.run(proxy.serve(ready, stop))

    thread = threading.Thread(target=run, name="lossy-proxy")
    thread.start()
    try:
        assert ready.wait(10)
        yield proxy
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
