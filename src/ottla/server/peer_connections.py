"""The other brokers over sockets: the `Peers` port of broker/peers.py, on the node's own event loop.

A broker answers the requests of one connection in order, so what must not wait never stands behind what may: every API has
a connection of its own to each peer, made when it is first asked. A long poll delays no Vote, a topic being created no
heartbeat. The quorum's Fetches have another connection than the replicas'.

Nothing here reconnects or repeats by itself: a request that finds no connection makes one, so whoever asks again chooses
when. A connection to an address that is not the peer's any more is left at the next request.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from ottla.base.types import NodeId
from ottla.broker.peers import CLIENT_ID_PREFIX, Peers, Watch
from ottla.raft.wire_requests import TOPIC_ID as METADATA_TOPIC_ID
from ottla.server.peer_connection import Address, PeerConnection, unanswered
from ottla.server.request_memory import Scratch
from ottla.wire.apis import ApiKey
from ottla.wire.message import Message

ANSWER_SECONDS_MAX: Final = 30.0  # As request.timeout.ms: for who names no other.

AddressOf: TypeAlias = Callable[[NodeId], tuple[str, int] | None]
_Lane: TypeAlias = tuple[NodeId, ApiKey, bool]


class PeerConnections:
    """Implements `Peers`."""

    def __init__(self, *, node_id: NodeId, loopback: Peers, address_of: AddressOf) -> None:
        self._node_id = node_id
        self._loopback = loopback
        self._address_of = address_of
        self._loop = asyncio.get_running_loop()
        self._client_id = f"{CLIENT_ID_PREFIX}{node_id}"
        self._scratch = Scratch()
        self._lanes: dict[_Lane, PeerConnection] = {}
        self._watches: dict[_SocketWatch, None] = {}
        self._is_closed = False

    async def ask(
        self,
        node_id: NodeId,
        api_key: ApiKey,
        api_version: int,
        request: Message,
        *,
        timeout_seconds: float | None = None,
    ) -> Any:
        if node_id == self._node_id:
            return await self._loopback.ask(node_id, api_key, api_version, request, timeout_seconds=timeout_seconds)
        lane = (node_id, api_key, api_key == ApiKey.FETCH and _is_of_quorum(request))
        connection = self._connection(lane, self._address(node_id))
        seconds = ANSWER_SECONDS_MAX if timeout_seconds is None else timeout_seconds
        return await connection.ask(api_key, api_version, request, seconds)

    def watch(self, node_id: NodeId, on_lost: Callable[[], None]) -> Watch:
        if node_id == self._node_id:
            return self._loopback.watch(node_id, on_lost)
        watch = _SocketWatch(on_lost, self._watches)
        address = self._address_of(node_id)
        if address is None or self._is_closed:
            self._loop.call_soon(watch.on_ended)
        else:
            watch.connection = self._open(Address(*address), watch.on_ended)
        return watch

    def close(self) -> None:
        """Every connection ends, and what is unanswered with it; nobody is told that a peer was lost."""
        self._is_closed = True
        for watch in tuple(self._watches):
            watch.close()
        for connection in tuple(self._lanes.values()):
            connection.end(unanswered, "this node is stopping")

    def _address(self, node_id: NodeId) -> tuple[str, int]:
        if self._is_closed:
            raise unanswered("this node is stopping")
        address = self._address_of(node_id)
        if address is None:
            raise unanswered(f"the address of node {node_id} is not known")
        return address

    def _connection(self, lane: _Lane, address: tuple[str, int]) -> PeerConnection:
        connection = self._lanes.get(lane)
        if connection is not None and connection.address != address:
            connection.end(unanswered, f"node {lane[0]} is at {Address(*address)} now")
            connection = None
        if connection is None:
            connection = self._lanes[lane] = self._open(Address(*address), lambda: self._forget(lane))
        return connection

    def _forget(self, lane: _Lane) -> None:
        del self._lanes[lane]

    def _open(self, address: Address, on_ended: Callable[[], None]) -> PeerConnection:
        return PeerConnection(self._loop, address, self._client_id, self._scratch, on_ended)


class _SocketWatch:
    """A connection on which nothing is asked. Implements `Watch`."""

    def __init__(self, on_lost: Callable[[], None], watches: "dict[_SocketWatch, None]") -> None:
        self._on_lost = on_lost
        self._watches = watches
        self.connection: PeerConnection | None = None
        watches[self] = None

    def on_ended(self) -> None:
        if self in self._watches:
            del self._watches[self]
            self._on_lost()

    def close(self) -> None:
        self._watches.pop(self, None)
        if self.connection is not None:
            self.connection.end(unanswered, "not watched any more")


def _is_of_quorum(request: Any) -> bool:
    topics = request.topics
    return bool(topics) and topics[0].topic_id == METADATA_TOPIC_ID
