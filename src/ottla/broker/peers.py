"""What one broker asks another: one port, addressed by broker id, that carries wire messages.

The coordinator of a transaction and the leaders of its partitions talk through it (AddPartitionsToTxn, WriteTxnMarkers).
On one node it is `Loopback`; the simulator puts delays, losses, repetitions and other orders in front of it. Whoever
asks must bear all of them: an answer that does not come says nothing about what was done.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NodeId
from ottla.broker.request import Api, Peer, RequestContext
from ottla.wire.apis import ApiKey
from ottla.wire.message import Message

if TYPE_CHECKING:
    from ottla.broker.node import Node

_PEER: Final = Peer(host="loopback", port=0, listener="")


class Peers(Protocol):
    async def ask(self, broker_id: NodeId, api_key: ApiKey, api_version: int, request: Message) -> Any:
        """The response. `ApiError` NETWORK_EXCEPTION: no answer, and whether the request took effect is not known."""
        ...


class Loopback:
    """The only broker of the cluster, asked by itself."""

    def __init__(self, node: "Node", apis: Mapping[int, Api]) -> None:
        self._node = node
        self._apis = apis

    async def ask(self, broker_id: NodeId, api_key: ApiKey, api_version: int, request: Message) -> Any:
        if broker_id != self._node.node_id:
            raise ApiError(ErrorCode.NETWORK_EXCEPTION, f"broker {broker_id} cannot be reached from here")
        context = RequestContext(api_key, api_version, 0, None, _PEER)
        return await self._apis[api_key].handle(self._node, context, request)
