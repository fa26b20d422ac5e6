"""What one broker asks another: one port, addressed by broker id, that carries wire messages.

The coordinator of a transaction and the leaders of its partitions talk through it (AddPartitionsToTxn, WriteTxnMarkers),
so do the quorum, the controller and the followers. A node asks itself through `Loopback`; the simulator puts delays,
losses, repetitions and other orders in front of it. Whoever asks must bear all of them: an answer that does not come says
nothing about what was done.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NodeId
from ottla.broker.request import Api, Peer, RequestContext
from ottla.wire.apis import ApiKey
from ottla.wire.message import Message

if TYPE_CHECKING:
    from ottla.broker.node import Node

CLIENT_ID_PREFIX: Final = "__ottla_node_"
"""So that a request which a node passed on is not passed on again: two may each take the other for the controller. No
person names a client so, as no topic."""


def is_of_peer(context: RequestContext) -> bool:
    """Whether another node asks, not a client."""
    return context.client_id is not None and context.client_id.startswith(CLIENT_ID_PREFIX)


_PEER: Final = Peer(host="loopback", port=0, listener="")


class PeerLost(ApiError):
    """The connection was refused, reset or closed: the other process is gone, most likely."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, message)


class Watch(Protocol):
    def close(self) -> None:
        """`on_lost` is not called any more."""
        ...


class Peers(Protocol):
    async def ask(
        self,
        node_id: NodeId,
        api_key: ApiKey,
        api_version: int,
        request: Message,
        *,
        timeout_seconds: float | None = None,
    ) -> Any:
        """The response. `ApiError` NETWORK_EXCEPTION: no answer, and whether the request took effect is not known."""
        ...

    def watch(self, node_id: NodeId, on_lost: Callable[[], None]) -> Watch:
        """Keeps an idle connection; `on_lost` is called once, when it ends or cannot be made."""
        ...

    def close(self) -> None:
        """Ends what is unanswered; nobody is told that a peer was lost."""
        ...


class Nobody:
    """A node that is not there yet, asked by itself."""

    async def ask(
        self,
        node_id: NodeId,
        api_key: ApiKey,
        api_version: int,
        request: Message,
        *,
        timeout_seconds: float | None = None,
    ) -> Any:
        raise PeerLost(f"node {node_id} is not there")

    def watch(self, node_id: NodeId, on_lost: Callable[[], None]) -> Watch:
        return _Unbreakable()

    def close(self) -> None:
        pass


class Loopback:
    """A node asked by itself."""

    def __init__(self, node: "Node", apis: Mapping[int, Api]) -> None:
        self._node = node
        self._apis = apis

    async def ask(
        self,
        node_id: NodeId,
        api_key: ApiKey,
        api_version: int,
        request: Message,
        *,
        timeout_seconds: float | None = None,
    ) -> Any:
        if node_id != self._node.node_id:
            raise PeerLost(f"node {node_id} cannot be reached from here")
        context = RequestContext(api_key, api_version, 0, None, _PEER)
        return await self._apis[api_key].handle(self._node, context, request)

    def watch(self, node_id: NodeId, on_lost: Callable[[], None]) -> Watch:
        return _Unbreakable()

    def close(self) -> None:
        pass


class _Unbreakable:
    """A node does not lose itself."""

    def close(self) -> None:
        pass
