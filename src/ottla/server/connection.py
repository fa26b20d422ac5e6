"""One client connection without its socket: bytes in, requests started, answers out in order.

Order. Answers leave in the order of their requests. A Produce may start while earlier ones of the connection still wait
for their commit, because a partition keeps the order of its appends, and so may an OffsetCommit behind others that are
decided; any other request waits until the earlier ones are answered, as in Kafka.

Bounds. `IN_FLIGHT_MAX` unanswered requests, `OUTPUT_BACKLOG_BYTES_MAX` unsent bytes, `RequestMemory` for all buffers: past
any of them the connection stops reading until there is room. After `TURN_SECONDS_MAX` of work the rest of what it has
received waits for the other connections' turns.

The transport (socket_transport.py, or the simulator's) calls `get_buffer` and `buffer_updated`.
"""

import logging
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from struct import Struct
from typing import Any, Final, Protocol

from ottla.base.clock import Clock
from ottla.base.continuation import Continuation
from ottla.base.errors import ApiError, NotServed, ProtocolError, invariant
from ottla.base.outcome import Outcome
from ottla.broker.peers import is_of_peer
from ottla.broker.request import Parts, Peer, RequestContext
from ottla.server.receiving_connection import ReceivingConnection, Transport
from ottla.server.request_memory import RequestMemory, Scratch

logger = logging.getLogger(__name__)

TURN_SECONDS_MAX: Final = 0.005  # Then the rest of what one client has pipelined waits for the others' turns.
IN_FLIGHT_MAX: Final = 64  # Answers keep order: one slow commit may hold back at most this many.
OUTPUT_BACKLOG_BYTES_MAX: Final = 1 << 20  # A client that does not read gets no further answers computed.
SIZE: Final = Struct(">i")
_HEAD: Final = Struct(">ih")
_PRODUCE: Final = 0
_FETCH: Final = 1
_OFFSET_COMMIT: Final = 8
_REQUEST_BYTES_MIN: Final = 8  # api key, version, correlation id


class Service(Protocol):
    """What answers requests: broker/dispatch."""

    def begin(self, frame: memoryview, peer: Peer) -> RequestContext: ...

    def answer_at_once(self, context: RequestContext, frame: memoryview) -> Parts | None:
        """None: it is for `answer`. Only commits are worth the question."""
        ...

    def answer(self, context: RequestContext, frame: memoryview) -> Coroutine[Any, Any, Parts | None]: ...

    def refused(self, context: RequestContext, parts: Parts, error: ApiError) -> Parts:
        """The same answers, which did not come true."""
        ...


class _Pending:
    """An unanswered request that had to wait."""

    __slots__ = ("committed", "context", "done", "held_bytes", "parts", "rest")

    def __init__(self, context: RequestContext) -> None:
        self.context = context
        self.done = False
        self.committed: Outcome | None = None  # What an answer that is ready waits for.
        self.held_bytes = 0  # Of a receive buffer that was left to it.
        self.parts: Parts | None = None
        self.rest: Continuation[Parts | None] | None = None  # Of its handler.

    def is_overlapped_by(self, api_key: int) -> bool:
        """Whether a request of that kind may start before this one is answered."""
        if api_key == _PRODUCE:
            return self.context.api_key == _PRODUCE
        return api_key == _OFFSET_COMMIT and self.committed is not None

    def is_held_like(self, context: RequestContext) -> bool:
        """Whether both wait for the same, and are refused in the same words if it fails."""
        return self.committed is context.committed and self.context.api_version == context.api_version


class Connection(ReceivingConnection):
    __slots__ = (
        "_is_yielding", "_last_context", "_on_closed", "_out", "_pending", "_request_bytes_max", "_service",
        "can_answers_wait", "closed", "draining", "peer",
    )  # fmt: skip

    def __init__(
        self,
        *,
        transport: Transport,
        service: Service,
        peer: Peer,
        clock: Clock,
        scratch: Scratch,
        memory: RequestMemory,
        request_bytes_max: int,
        on_closed: Callable[["Connection"], None],
    ) -> None:
        super().__init__(transport=transport, clock=clock, scratch=scratch, memory=memory)
        self.peer = peer
        self._service = service
        self._request_bytes_max = request_bytes_max
        self._pending: deque[_Pending] = deque()
        self._last_context: RequestContext | None = None
        self._out: Parts = []
        self._is_yielding = False
        self._on_closed = on_closed
        self.can_answers_wait = False
        """Those of the last request: to the end of the loop's turn (turn_end.py)."""
        self.closed = False
        self.draining = False

    # -- requests ----------------------------------------------------------------------------------------------------

    def buffer_updated(self, count: int) -> None:
        self._end += count
        self._parse()

    def _parse(self) -> None:
        view = self._view
        begun_at: float | None = None
        while not self.closed:
            left = self._end - self._start
            if left < 4:
                self._expected = 0
                break
            (size,) = SIZE.unpack_from(view, self._start)
            if not _REQUEST_BYTES_MIN <= size <= self._request_bytes_max:
                self._refuse(f"a request declares {size} bytes (at most {self._request_bytes_max})")
                return
            self._expected = size + 4
            if left < size + 4 or self._must_wait(view, self._start):
                break
            now = self.last_active = self._clock.monotonic()
            if begun_at is None:
                begun_at = now
            elif now - begun_at > TURN_SECONDS_MAX:
                self._yield_turn()
                break
            frame = view[self._start + 4 : self._start + 4 + size]
            self._start += size + 4
            self._handle(frame)
        if not self.closed:
            self._keep_rest(view)
            self._send()

    def _must_wait(self, view: memoryview, start: int) -> bool:
        if self.draining or self._transport.backlog_bytes() > OUTPUT_BACKLOG_BYTES_MAX:
            self._pause()
            return True
        pending = self._pending
        if not pending:
            return False
        _, api_key = _HEAD.unpack_from(view, start)
        if len(pending) < IN_FLIGHT_MAX and pending[-1].is_overlapped_by(api_key):
            return False
        self._pause()
        return True

    def release_idle_buffer(self) -> None:
        """Called by the sweep: a connection that went quiet gives its buffer back."""
        if self._own and self._end == 0 and not self._pending:
            self._drop_buffer()

    # -- handling ----------------------------------------------------------------------------------------------------

    def _handle(self, frame: memoryview) -> None:
        try:
            context = self._last_context = self._service.begin(frame, self.peer)
            self.can_answers_wait = context.api_key > _FETCH
            if context.api_key == _OFFSET_COMMIT:
                parts = self._service.answer_at_once(context, frame)
                if parts is not None:
                    self._answered(context, parts)
                    return
            coroutine = self._service.answer(context, frame)
            waits_on = coroutine.send(None)
        except StopIteration as finished:
            self._answered(context, finished.value)
        except (ProtocolError, ApiError) as error:
            self._refuse(error)
        except Exception:
            logger.exception("request failed; closing the connection", extra={"peer": str(self.peer)})
            self.close()
        else:
            pending = self._wait(context, coroutine, waits_on)
            if context.holds_frame:
                self._holder = pending

    def _answered(self, context: RequestContext, parts: Parts | None) -> None:
        if parts is None:
            return
        if context.committed is not None:
            self._hold(context, parts, context.committed)
        elif self._pending:
            pending = _Pending(context)
            pending.done, pending.parts = True, parts
            self._pending.append(pending)
        else:
            self._out += parts

    def _hold(self, context: RequestContext, parts: Parts, committed: Outcome) -> None:
        """An answer that is ready and not true yet. Those that wait for the same leave together."""
        last = self._pending[-1] if self._pending else None
        if last is not None and last.parts is not None and last.is_held_like(context):
            last.parts += parts
            return
        pending = _Pending(context)
        self._pending.append(pending)
        self._await_commit(pending, parts, committed)

    def _await_commit(self, pending: _Pending, parts: Parts | None, committed: Outcome) -> None:
        pending.parts, pending.committed = parts, committed
        committed.listen(partial(self._on_committed, pending))

    def _on_committed(self, pending: _Pending, error: ApiError | None) -> None:
        if self.closed:
            return
        if error is not None and pending.parts is not None:
            try:
                pending.parts = self._service.refused(pending.context, pending.parts, error)
            except Exception as failure:  # No answer would leave the client waiting.
                self._on_failed(failure)
                return
        pending.done = True
        self._send_done()

    def _wait(
        self, context: RequestContext, coroutine: Coroutine[Any, Any, Parts | None], waits_on: object
    ) -> _Pending:
        pending = _Pending(context)
        self._pending.append(pending)
        pending.rest = Continuation(
            coroutine, waits_on, lambda parts, error: self._on_finished(pending, context, parts, error)
        )
        return pending

    def _on_finished(
        self, pending: _Pending, context: RequestContext, parts: Parts | None, error: BaseException | None
    ) -> None:
        pending.rest = None
        self._memory.release(pending.held_bytes)
        if self.closed:
            return
        if error is not None:
            self._on_failed(error)
        elif context.committed is not None:
            self._await_commit(pending, parts, context.committed)
        else:
            pending.done, pending.parts = True, parts
            self._send_done()

    def _on_failed(self, error: BaseException) -> None:
        if isinstance(error, ProtocolError | ApiError):
            self._refuse(error)
            return
        logger.error("request failed; closing the connection", exc_info=error, extra={"peer": str(self.peer)})
        self.close()

    def _send_done(self) -> None:
        queue = self._pending
        while queue and queue[0].done:
            parts = queue.popleft().parts
            if parts is not None:
                self._out += parts
        self._send()
        self.on_room()

    # -- sending and stopping ----------------------------------------------------------------------------------------

    def _send(self) -> None:
        if self._out:
            parts, self._out = self._out, []
            self._transport.write(parts)

    def on_room(self) -> None:
        """The output drained or an answer left: what was held back may go on."""
        self.last_active = self._clock.monotonic()
        if self.closed or not self._paused or self.draining or self._is_yielding:
            return
        self._paused = False
        if self._end > self._start:
            self._parse()
        if not self._paused and not self.closed:
            self._transport.resume_reading()

    def _yield_turn(self) -> None:
        self._is_yielding = True
        self._pause()
        self._transport.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._is_yielding = False
        self.on_room()

    def _pause(self) -> None:
        self._paused = True
        self._transport.pause_reading()

    @property
    def busy(self) -> bool:
        return bool(self._pending) or self._transport.backlog_bytes() > 0

    def drain(self) -> None:
        """Takes no further request; what is under way is still answered."""
        self.draining = True
        self._pause()

    def send_away(self) -> None:
        """This broker is cut off: a client that waits here may wait for nothing. Other nodes stay.

        Those that do not wait go, too: what is on its way from them would arrive when the network is whole again, long
        after they gave it up. A commit of offsets would take back all that was committed elsewhere since.
        """
        if self._last_context is not None and not is_of_peer(self._last_context):
            self._refuse(NotServed("this broker is cut off from the cluster: ask another"))

    def _refuse(self, reason: str | BaseException) -> None:
        level = logging.DEBUG if isinstance(reason, NotServed) else logging.WARNING
        logger.log(level, "closing connection from %s: %s", self.peer, reason)
        self._send()  # What came before it is answered.
        self.close()

    def close(self) -> None:
        if not self.closed:
            self._transport.close()

    def on_closed(self) -> None:
        """The transport is gone, whoever closed it."""
        invariant(not self.closed, "a connection closes once", peer=str(self.peer))
        self.closed = True
        self.peer.lifeline.cut()
        if self._holder is not None:
            self._leave_buffer(self._holder)  # A worker may still be reading it.
        if self._own:
            self._memory.release(self._own)
            self._own = 0
        for pending in self._pending:
            if pending.rest is not None:
                pending.rest.cancel()
        self._pending.clear()
        self._out.clear()
        self._view = self._scratch.view  # The buffer goes now, not when a collector finds what is left of us.
        self._on_closed(self)
