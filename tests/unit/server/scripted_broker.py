"""A broker of a few lines behind a real socket: a test's function says what each request is answered with."""

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from ottla.wire.apis import API_INFO
from ottla.wire.codec import codec_for
from ottla.wire.frame import decode_request_header, encode_response
from ottla.wire.message import Message


class RequestHead(NamedTuple):
    """What `decode_request_header` finds, by name."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


Answers = Callable[[RequestHead, Any], "Message | bytes | None"]
"""A message, the bytes of a frame, or None: never answered."""


class ScriptedBroker:
    """`heads` has what was asked, `writers` the connections in the order in which they came."""

    def __init__(self, answers: Answers, *, piece_bytes: int | None = None) -> None:
        self._answers = answers
        self._piece_bytes = piece_bytes
        self._server: asyncio.Server | None = None
        self.heads: list[RequestHead] = []
        self.writers: list[asyncio.StreamWriter] = []
        self._asked = asyncio.Event()
        self._released = asyncio.Event()
        self._released.set()
        self.port = 0

    async def start(self, port: int = 0) -> "ScriptedBroker":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = memoryview(await reader.readexactly(size))
                head = RequestHead(*decode_request_header(frame))
                request, _ = codec_for(API_INFO[head.api_key].request, head.api_version).decode(
                    frame, head.body_position
                )
                self.heads.append(head)
                self._asked.set()
                await self._released.wait()
                await self._answer(writer, head, self._answers(head, request))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, head: RequestHead, answer: Message | bytes | None) -> None:
        if answer is None:
            return
        if isinstance(answer, Message):
            answer = encode_response(head.api_key, head.api_version, head.correlation_id, answer)
        step = self._piece_bytes or len(answer)
        for start in range(0, len(answer), step):
            writer.write(answer[start : start + step])
            await asyncio.sleep(0)

    async def wait_asked(self, count: int) -> None:
        while len(self.heads) < count:
            self._asked.clear()
            await self._asked.wait()

    def hold(self) -> None:
        """Answers wait for `release`."""
        self._released.clear()

    def release(self) -> None:
        self._released.set()

    def close_connections(self) -> None:
        for writer in self.writers:
            writer.close()

    def reset_connections(self) -> None:
        for writer in self.writers:
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
