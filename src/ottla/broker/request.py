"""What a handler knows of a request besides its message: who asks, over which listener, in which version."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from ottla.base.disk import Buffer
from ottla.base.errors import ErrorCode
from ottla.base.outcome import Outcome
from ottla.log.partition_log import LogSlice

if TYPE_CHECKING:
    from ottla.broker.node import Node

Part: TypeAlias = Buffer | LogSlice
Parts: TypeAlias = list[Part]


class Lifeline:
    """Whether a connection is still open. Every one has it, hardly anybody waits for it: as small as can be."""

    __slots__ = ("_waited_for", "is_cut")

    def __init__(self) -> None:
        self.is_cut = False
        self._waited_for: asyncio.Future[None] | None = None

    def cut(self) -> None:
        self.is_cut = True
        if self._waited_for is not None and not self._waited_for.done():
            self._waited_for.set_result(None)

    async def wait_cut(self) -> None:
        if self.is_cut:
            return
        if self._waited_for is None:
            self._waited_for = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._waited_for)  # Others may wait, too.


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The other end of one connection, and the address of ours that it came to."""

    host: str
    port: int
    listener: str
    local_host: str = ""
    lifeline: Lifeline = field(default_factory=Lifeline, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class RequestContext:
    """One request. `holds_frame`: its handler may still need the received bytes while it waits. `committed`: its answer
    is not to be sent before that is known; if it is bad, `Api.refuse` says so instead."""

    __slots__ = (
        "api_key", "api_version", "body_position", "client_id", "committed", "correlation_id", "holds_frame", "peer",
    )  # fmt: skip

    def __init__(
        self,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        peer: Peer,
        body_position: int = 0,
        holds_frame: bool = False,
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.peer = peer
        self.body_position = body_position
        self.holds_frame = holds_frame
        self.committed: Outcome | None = None


# A handler answers with a message, with parts that are encoded already (hot paths), or with None (acks=0: no answer).
Handler: TypeAlias = Callable[["Node", RequestContext, Any], Coroutine[Any, Any, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One row of the dispatch table: what is advertised and who answers."""

    versions: tuple[int, int]
    handle: Handler
    # Answers from the whole frame, without a coroutine; None where something must be waited for: `handle` does then.
    at_once: Callable[["Node", RequestContext, memoryview], Parts | None] | None = None
    # Reads the body instead of the general codec: (frame, body position, version) -> request.
    decode: Callable[[memoryview, int, int], Any] | None = None
    # What to say instead of answers whose `committed` failed: (whole frames, version, code) -> whole frames.
    refuse: Callable[[Parts, int, ErrorCode], Parts] | None = None
    holds_frame: bool = False
    is_for_controller: bool = False
    """Only the active controller can answer: any other node passes it on."""
    is_internal: bool = False
    """Among nodes: served, but not advertised to clients."""
    is_early: bool = False
    """Answered before the node is ready, as everything among nodes is."""
