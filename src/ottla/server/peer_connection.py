"""One connection to another broker: requests leave at once, answers come back in their order.

It exists from its first request on: what is asked while it is being opened leaves when it is. It ends once, for whatever
reason, and every unanswered request ends with it: `PeerLost` where the other process is gone, most likely (refused,
reset, closed), NETWORK_EXCEPTION where nothing is known (no answer in time, no route, nonsense). A request without its
answer would hold up all behind it, so its time-out ends the connection too.

Receiving. Small answers are read into a scratch buffer that all connections share and copied out of it; a large one gets
a buffer of its own and is received in place. Either way an answer owns its bytes: records in it are views of them.
"""

import asyncio
import errno
import logging
import os
import socket
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Any, Final, NamedTuple

from ottla.base.errors import ApiError, ErrorCode, ProtocolError
from ottla.base.lazy_timer import LazyTimer
from ottla.broker.peers import PeerLost
from ottla.server.request_memory import Scratch
from ottla.wire.apis import ApiKey
from ottla.wire.frame import SIZE_BYTES, decode_response, encode_request
from ottla.wire.message import Message

logger = logging.getLogger(__name__)

FRAME_BYTES_MAX: Final = 128 << 20  # The largest batch that a node takes, and what stands around it.
UNANSWERED_COUNT_MAX: Final = 1_000
UNANSWERED_BYTES_MAX: Final = 64 << 20
CONNECT_SECONDS_MAX: Final = 3.0
SILENT_SECONDS_MAX: Final = 6.0  # Bytes that nobody confirms for so long went into a cut network.
KEEPALIVE_SECONDS: Final = 2  # What an idle connection is probed at.
_FRAME_BYTES_MIN: Final = 4  # The correlation id.
_SIZE: Final = Struct(">i")
_GONE: Final = (ConnectionRefusedError, ConnectionResetError, ConnectionAbortedError, BrokenPipeError)


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def unanswered(message: str) -> ApiError:
    return ApiError(ErrorCode.NETWORK_EXCEPTION, message)


class _Pending:
    """A request whose answer has not come."""

    __slots__ = ("answer", "api_key", "api_version", "correlation_id", "deadline", "size")

    def __init__(
        self,
        answer: "asyncio.Future[Any]",
        api_key: ApiKey,
        api_version: int,
        correlation_id: int,
        deadline: float,
        size: int,
    ) -> None:
        self.answer = answer
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.deadline = deadline
        self.size = size


class PeerConnection(asyncio.BufferedProtocol):
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        address: Address,
        client_id: str,
        scratch: Scratch,
        on_ended: Callable[[], None],
    ) -> None:
        self.address = address
        self.is_ended = False
        self._loop = loop
        self._client_id = client_id
        self._scratch = scratch
        self._on_ended = on_ended
        self._transport: asyncio.Transport | None = None
        self._unsent: list[bytes] = []  # Until it is open.
        self._pending: deque[_Pending] = deque()
        self._unanswered_bytes = 0
        self._correlation_id = 0
        self._rest = b""  # Less than a size, of an answer that has just begun.
        self._frame: memoryview | None = None  # A large answer that is being received.
        self._received_bytes = 0  # Of it.
        self._deadline = LazyTimer(self._on_deadline)
        self._opening = loop.create_task(self._open(), name=f"connect to {address}")

    # -- asking ------------------------------------------------------------------------------------------------------

    async def ask(self, api_key: ApiKey, api_version: int, request: Message, timeout_seconds: float) -> Any:
        if len(self._pending) >= UNANSWERED_COUNT_MAX or self._unanswered_bytes >= UNANSWERED_BYTES_MAX:
            raise unanswered(f"too much is unanswered by {self.address} already")
        correlation_id = self._correlation_id
        self._correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        frame = encode_request(api_key, api_version, correlation_id, self._client_id, request)
        answer = self._loop.create_future()
        deadline = self._loop.time() + timeout_seconds
        self._pending.append(_Pending(answer, api_key, api_version, correlation_id, deadline, len(frame)))
        self._unanswered_bytes += len(frame)
        if self._transport is None:
            self._unsent.append(frame)
        else:
            self._transport.write(frame)
        self._deadline.bring_forward(deadline)
        try:
            return await answer
        except asyncio.CancelledError:
            self._on_given_up()
            raise

    def _on_given_up(self) -> None:
        """Who gave up may ask again at once, and should not wait for the old answer if nobody else does."""
        if all(pending.answer.done() for pending in self._pending):
            self.end(unanswered, "given up")

    def _on_deadline(self) -> None:
        if self._pending:
            deadline = min(pending.deadline for pending in self._pending)
            if deadline <= self._loop.time():
                self.end(unanswered, "no answer in time")
            else:
                self._deadline.set(deadline)

    # -- opening and ending ------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                await self._connect()
        except TimeoutError:
            self.end(unanswered, "no connection in time")
        except OSError as error:
            self._end_by(error)

    async def _connect(self) -> None:
        """To the first address of the host that accepts; one that refuses says more than one without a route."""
        host, port = self.address
        failure: OSError | None = None
        for family, _, _, _, address in await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            try:
                await self._loop.create_connection(lambda: self, str(address[0]), port, family=family)
                return
            except OSError as error:
                if failure is None or isinstance(error, ConnectionRefusedError):
                    failure = error
        raise failure or OSError(errno.EADDRNOTAVAIL, "no address")

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        try:
            if self.is_ended or _meets_itself(transport):
                transport.abort()
                self.end(PeerLost, "refused")
                return
            _notice_cut_networks(transport)
        except OSError as error:  # It is gone already.
            self._end_by(error)
            return
        if self._unsent:
            transport.write(b"".join(self._unsent))
            self._unsent.clear()

    def connection_lost(self, error: Exception | None) -> None:
        if isinstance(error, OSError):
            self._end_by(error)
        else:
            self.end(PeerLost, "closed by the peer")

    def _end_by(self, error: OSError) -> None:
        # By its number: asyncio and uvloop find other words for the same error.
        reason = str(error) if error.errno is None or error.errno < 0 else os.strerror(error.errno)
        self.end(PeerLost if isinstance(error, _GONE) else unanswered, reason)

    def end(self, kind: Callable[[str], ApiError], reason: str) -> None:
        if self.is_ended:
            return
        self.is_ended = True
        self._opening.cancel()
        self._deadline.cancel()
        if self._transport is not None:
            self._transport.abort()
        pending, self._pending = self._pending, deque()
        for one in pending:
            if not one.answer.done():
                one.answer.set_exception(kind(f"{self.address}: {reason}"))
        self._on_ended()

    # -- receiving ---------------------------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._frame is not None:
            return self._frame[self._received_bytes :]
        rest = self._rest
        self._scratch.view[: len(rest)] = rest
        return self._scratch.view[len(rest) :]

    def buffer_updated(self, count: int) -> None:
        try:
            if self._frame is None:
                self._take_small(self._scratch.view[: len(self._rest) + count])
            else:
                self._received_bytes += count
                if self._received_bytes == len(self._frame):
                    frame, self._frame = self._frame, None
                    self._on_frame(frame)
        except ProtocolError as error:
            logger.warning("closing the connection to %s: %s", self.address, error)
            self.end(unanswered, str(error))

    def _take_small(self, view: memoryview) -> None:
        start, end = 0, len(view)
        while end - start >= SIZE_BYTES and not self.is_ended:
            (size,) = _SIZE.unpack_from(view, start)
            if not _FRAME_BYTES_MIN <= size <= FRAME_BYTES_MAX:
                raise ProtocolError(f"an answer declares {size} bytes (at most {FRAME_BYTES_MAX})")
            start += SIZE_BYTES
            if end - start < size:
                self._frame = memoryview(bytearray(size))
                self._frame[: end - start] = view[start:]
                self._received_bytes = end - start
                start = end
                break
            self._on_frame(memoryview(bytes(view[start : start + size])))
            start += size
        self._rest = bytes(view[start:])

    def _on_frame(self, frame: memoryview) -> None:
        if not self._pending:
            raise ProtocolError("an answer that nobody asked for")
        pending = self._pending.popleft()
        self._unanswered_bytes -= pending.size
        (correlation_id,) = _SIZE.unpack_from(frame)
        if pending.answer.done():
            return
        try:
            if correlation_id != pending.correlation_id:
                raise ProtocolError(f"the answer to {correlation_id} where that to {pending.correlation_id} comes next")
            _, answer = decode_response(pending.api_key, pending.api_version, frame)
        except ProtocolError as error:
            pending.answer.set_exception(unanswered(f"{self.address}: {error}"))
            raise
        pending.answer.set_result(answer)


def _meets_itself(transport: asyncio.Transport) -> bool:
    """A connection to a port of this host where nobody listens may by chance begin there, and would occupy it."""
    sock: socket.socket = transport.get_extra_info("socket")
    return bool(sock.getsockname() == sock.getpeername())


def _notice_cut_networks(transport: asyncio.Transport) -> None:
    """The kernel ends connections into a cut network by itself, where it can be told when."""
    sock: socket.socket = transport.get_extra_info("socket")
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_SECONDS),
        ("TCP_KEEPINTVL", KEEPALIVE_SECONDS),
        ("TCP_KEEPCNT", round(SILENT_SECONDS_MAX / KEEPALIVE_SECONDS)),
        ("TCP_USER_TIMEOUT", round(SILENT_SECONDS_MAX * 1000)),
    ):
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
