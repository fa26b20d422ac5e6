"""The way between several nodes: whole requests and answers, as bytes, that are late, lost, doubled or overtake each other.

Nothing is shared by reference: a request is encoded here and decoded by the other node's own dispatcher. A process that is
gone refuses and resets, and whoever watches it is told; a host that is gone, or behind a cut link, says nothing: requests
to it time out, and watches end after a while, as a kernel ends connections (`SILENT_SECONDS`). A firewall may refuse for a
process that lives (`refuse`). Requests of one kind from one node to another share a connection, as far as the other can
tell whether it is still open.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextvars import Context, copy_context
from dataclasses import dataclass
from random import Random
from typing import Any, Final, Protocol, TypeAlias

from ottla.base.errors import ApiError, ErrorCode, ProtocolError
from ottla.base.types import NO_NODE, NodeId
from ottla.broker.handlers.quorum import is_metadata_fetch
from ottla.broker.peers import CLIENT_ID_PREFIX, PeerLost, Peers, Watch
from ottla.broker.request import Lifeline, Peer
from ottla.server.connection import Service
from ottla.wire.apis import ApiKey
from ottla.wire.frame import SIZE_BYTES, decode_response, encode_request
from ottla.wire.message import Message
from sim.network import content_of
from sim.trace import Trace

ANSWER_SECONDS_MAX: Final = 30.0
SILENT_SECONDS: Final = 6.0
HANG_UP_AGAIN_SECONDS: Final = 1.0  # A kernel says it again until it is heard.
COUNTED: Final = frozenset(
    (
        ApiKey.VOTE,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
        ApiKey.ALTER_PARTITION,
        ApiKey.LIST_OFFSETS,  # Logs compared where no copy surely has every record.
        ApiKey.WRITE_TXN_MARKERS,
    )
)
"""Seldom, and each the way into branches of its own."""
Address: TypeAlias = tuple[str, int]
AddressOf: TypeAlias = Callable[[NodeId], Address | None]
Link: TypeAlias = tuple[NodeId, NodeId]  # From, to.
Lane: TypeAlias = tuple[NodeId, ApiKey, bool]  # As of server/peer_connections.py.


class Member(Protocol):
    """A node on the network: sim/node.py."""

    node_id: NodeId

    @property
    def service(self) -> Service | None:
        """None while nobody listens."""
        ...

    @property
    def is_silent(self) -> bool:
        """Whether not even its kernel is there to refuse."""
        ...

    @property
    def context(self) -> Context | None:
        """In which all that it does runs."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFaults:
    delay_seconds_max: float = 0.002  # Of every message by itself, so that they overtake each other.
    straggler_probability: float = 0.0
    straggler_seconds_max: float = 0.0  # How late a message may be that is late.
    loss_probability: float = 0.0  # Of a request, and again of its answer.
    repetition_probability: float = 0.0
    reset_probability: float = 0.0  # Of a connection between two nodes that are well.


CALM: Final = LinkFaults()


class _Connection:
    """What the one who is asked sees of it."""

    __slots__ = ("address", "asker_id", "lifeline")

    def __init__(self, asker_id: NodeId, address: Address) -> None:
        self.asker_id = asker_id
        self.address = address
        self.lifeline = Lifeline()


class _Exchange:
    """One request and what becomes of it."""

    __slots__ = ("answer", "asker_id", "connection", "context", "frame", "serving", "target_id")

    def __init__(self, connection: _Connection, frame: bytes, answer: "asyncio.Future[bytes] | None") -> None:
        self.asker_id = connection.asker_id
        self.connection = connection
        self.target_id: NodeId | None = None
        self.frame = frame
        self.answer = answer  # None: a repetition, whose answer nobody expects.
        self.context = copy_context()
        self.serving: asyncio.Task[None] | None = None


class _SimulatedWatch:
    def __init__(self, network: "PeerNetwork", asker_id: NodeId, address: Address, on_lost: Callable[[], None]) -> None:
        self.asker_id = asker_id
        self.address = address
        self.on_lost = on_lost
        self.context = copy_context()
        self._network = network

    def close(self) -> None:
        self._network.watches.pop(self, None)


class PeerNetwork:
    def __init__(self, loop: asyncio.AbstractEventLoop, chance: Random, trace: Trace, hits: Counter[str]) -> None:
        self.loop = loop
        self.faults = CALM
        self.cut: set[Link] = set()
        self.refused: set[Link] = set()
        self.watches: dict[_SimulatedWatch, None] = {}
        self.connections: dict[_Connection, None] = {}
        self._chance = chance
        self._trace = trace
        self.hits = hits
        self._members: dict[Address, Member] = {}
        self._open: dict[_Exchange, None] = {}

    def join(self, address: Address, member: Member) -> None:
        self._members[address] = member

    # -- what happens to links ---------------------------------------------------------------------------------------

    def cut_off(self, links: set[Link]) -> None:
        self.cut |= links
        self.loop.call_later(SILENT_SECONDS, self._on_silence, links)

    def refuse(self, links: set[Link]) -> None:
        """Whoever asks over them is told that nobody listens there; the answers of others pass."""
        self.refused |= links
        for link in sorted(links):
            self.reset(link)

    def mend(self, links: set[Link]) -> None:
        self.cut -= links
        self.refused -= links

    def _on_silence(self, links: set[Link]) -> None:
        """Those that are cut by now, whether all the while or again."""
        for watch in tuple(self.watches):
            target_id = self._id_at(watch.address)
            if self.cut & links & {(watch.asker_id, target_id), (target_id, watch.asker_id)}:
                self._lose(watch)

    def reset(self, link: Link) -> None:
        """The connections of one node to another break, and both live on."""
        self.hits["healthy connections reset"] += 1
        for exchange in tuple(self._open):
            if (exchange.asker_id, exchange.target_id) == link:
                self._fail(exchange, "reset")
        for watch in tuple(self.watches):
            if (watch.asker_id, self._id_at(watch.address)) == link:
                self._lose(watch)
        for connection in tuple(self.connections):
            if (connection.asker_id, self._id_at(connection.address)) == link:
                self.hang_up(connection)

    def on_death(self, node_id: NodeId) -> None:
        """Its kernel resets what it had, if there is one left and the link carries it."""
        for exchange in [one for one in self._open if one.target_id == node_id]:
            if self._carries(node_id, exchange.asker_id):
                self._fail(exchange, "reset by a dying process")
        for watch in tuple(self.watches):
            if watch.asker_id == node_id:
                watch.close()
            elif self._id_at(watch.address) == node_id:
                if self._carries(node_id, watch.asker_id):
                    self._lose(watch)
                else:
                    self.loop.call_later(SILENT_SECONDS, self._lose, watch)
        for connection in tuple(self.connections):
            if node_id in (connection.asker_id, self._id_at(connection.address)):
                self.hang_up(connection)

    def hang_up(self, connection: _Connection) -> None:
        """Its asker has ended it, or has ended itself; a machine that is gone says nothing."""
        if connection in self.connections:
            del self.connections[connection]
            if not self._is_silent(connection.asker_id):
                self._travel(self._arrive_end, connection)

    def _arrive_end(self, connection: _Connection) -> None:
        if self._carries(connection.asker_id, self._id_at(connection.address)):
            connection.lifeline.cut()
        else:
            self.loop.call_later(HANG_UP_AGAIN_SECONDS, self._arrive_end, connection)

    def _id_at(self, address: Address) -> NodeId:
        member = self._members.get(address)
        return NO_NODE if member is None else member.node_id

    def _carries(self, from_id: NodeId, to_id: NodeId) -> bool:
        return (from_id, to_id) not in self.cut and not self._is_silent(from_id) and not self._is_silent(to_id)

    def _is_silent(self, node_id: NodeId) -> bool:
        return any(one.is_silent for one in self._members.values() if one.node_id == node_id)

    # -- asking and watching -----------------------------------------------------------------------------------------

    def connect(self, asker_id: NodeId, address: Address) -> _Connection:
        connection = _Connection(asker_id, address)
        self.connections[connection] = None
        return connection

    def send(self, connection: _Connection, frame: bytes, answer: "asyncio.Future[bytes]") -> None:
        self._travel(self._arrive, _Exchange(connection, frame, answer))
        if self._strikes(self.faults.repetition_probability):
            self.hits["request repeated"] += 1
            self._travel(self._arrive, _Exchange(connection, frame, None))

    def watch(self, asker_id: NodeId, address: Address, on_lost: Callable[[], None]) -> _SimulatedWatch:
        watch = _SimulatedWatch(self, asker_id, address, on_lost)
        self.watches[watch] = None
        self._travel(self._begin_watch, watch)
        return watch

    def _begin_watch(self, watch: _SimulatedWatch) -> None:
        target = self._members.get(watch.address)
        if target is None or not self._carries(watch.asker_id, target.node_id):
            self.loop.call_later(SILENT_SECONDS, self._lose, watch)
        elif target.service is None or (watch.asker_id, target.node_id) in self.refused:
            self._lose(watch)

    def _lose(self, watch: _SimulatedWatch) -> None:
        def tell() -> None:
            if watch in self.watches:
                watch.close()
                self._trace.add("lost", watch.asker_id, watch.address)
                watch.on_lost()

        self._travel(tell, context=watch.context)

    # -- the way there -----------------------------------------------------------------------------------------------

    def _arrive(self, exchange: _Exchange) -> None:
        target = self._members.get(exchange.connection.address)
        if target is None or not self._carries(exchange.asker_id, target.node_id):
            self.hits["message into a cut link"] += 1
        elif self._strikes(self.faults.loss_probability):
            self.hits["request lost"] += 1
        elif self._strikes(self.faults.reset_probability):
            self.reset((exchange.asker_id, target.node_id))
            self._fail(exchange, "reset")
        elif (exchange.asker_id, target.node_id) in self.refused:
            self.hits["connection refused by a firewall"] += 1
            self._fail(exchange, "refused")
        elif target.service is None:
            self.hits["connection refused"] += 1
            self._fail(exchange, "refused")
        else:
            exchange.target_id = target.node_id
            self._open[exchange] = None
            assert target.context is not None
            self.loop.call_soon(self._accept, exchange, target, context=target.context.copy())

    def _accept(self, exchange: _Exchange, target: Member) -> None:
        """On behalf of the target from here on: this waits while it is paused."""
        exchange.serving = self.loop.create_task(self._serve(exchange, target), name="serve a peer")

    async def _serve(self, exchange: _Exchange, target: Member) -> None:
        frame = memoryview(bytearray(exchange.frame))[SIZE_BYTES:]
        service = target.service
        try:
            if service is None:
                raise ProtocolError("the node is stopping")
            lifeline = exchange.connection.lifeline
            peer = Peer(host=f"node-{exchange.asker_id}", port=1, listener="PLAINTEXT", lifeline=lifeline)
            context = service.begin(frame, peer)
            parts = await service.answer(context, frame)
            answer = b"".join(content_of(part) for part in parts or ())
        except (ProtocolError, ApiError, OSError) as error:
            self._trace.add("request refused", exchange.asker_id, target.node_id, type(error).__name__)
            self._fail(exchange, str(error))
            return
        self._travel(self._return, exchange, target, answer)

    # -- the way back ------------------------------------------------------------------------------------------------

    def _return(self, exchange: _Exchange, target: Member, answer: bytes) -> None:
        if not self._carries(target.node_id, exchange.asker_id):
            self.hits["message into a cut link"] += 1
            self._open.pop(exchange, None)
        elif self._strikes(self.faults.loss_probability):
            self.hits["answer lost"] += 1
            self._open.pop(exchange, None)
        elif exchange in self._open:
            self._settle(exchange, lambda future: future.set_result(answer))

    def _fail(self, exchange: _Exchange, why: str) -> None:
        self._settle(exchange, lambda future: future.set_exception(PeerLost(why)))

    def _settle(self, exchange: _Exchange, settle: "Callable[[asyncio.Future[bytes]], None]") -> None:
        self._open.pop(exchange, None)
        if exchange.answer is not None:
            future = exchange.answer
            self._travel(lambda: None if future.done() else settle(future), context=exchange.context)

    def _travel(self, arrive: Callable[..., None], *facts: object, context: Context | None = None) -> None:
        faults = self.faults
        delay = self._chance.random() * faults.delay_seconds_max
        if self._strikes(faults.straggler_probability):
            delay += self._chance.random() * faults.straggler_seconds_max
            self.hits["message late"] += 1
        self.loop.call_later(delay, arrive, *facts, context=Context() if context is None else context.copy())

    def _strikes(self, probability: float) -> bool:
        return probability > 0 and self._chance.random() < probability


class NetworkedPeers:
    """Implements `Peers` for one run of one node."""

    def __init__(self, network: PeerNetwork, node_id: NodeId, loopback: Peers, address_of: AddressOf) -> None:
        self._network = network
        self._node_id = node_id
        self._loopback = loopback
        self._address_of = address_of
        self._asked_count = 0
        self._connections: dict[Lane, _Connection] = {}
        self._unanswered: dict[asyncio.Future[bytes], None] = {}
        self._watches: list[Watch] = []
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
        if self._is_closed:
            raise ApiError(ErrorCode.NETWORK_EXCEPTION, "this node is stopping")
        address = self._address_of(node_id)
        if address is None:
            raise ApiError(ErrorCode.NETWORK_EXCEPTION, f"the address of node {node_id} is not known")
        frame = encode_request(api_key, api_version, self._asked_count, f"{CLIENT_ID_PREFIX}{self._node_id}", request)
        self._asked_count += 1
        answer: asyncio.Future[bytes] = self._network.loop.create_future()
        connection = self._connection((node_id, api_key, is_metadata_fetch(request)), address)
        self._network.send(connection, frame, answer)
        if api_key in COUNTED:
            self._network.hits[f"{api_key.name} sent between nodes"] += 1
        self._unanswered[answer] = None
        try:
            data = await asyncio.wait_for(answer, ANSWER_SECONDS_MAX if timeout_seconds is None else timeout_seconds)
        except TimeoutError:
            self._network.hang_up(connection)
            raise ApiError(ErrorCode.NETWORK_EXCEPTION, f"node {node_id} did not answer in time") from None
        except (ApiError, asyncio.CancelledError):
            self._network.hang_up(connection)
            raise
        finally:
            del self._unanswered[answer]
        _, message = decode_response(api_key, api_version, memoryview(data)[SIZE_BYTES:])
        return message

    def _connection(self, lane: Lane, address: Address) -> _Connection:
        connection = self._connections.get(lane)
        if connection is None or connection not in self._network.connections:
            connection = self._connections[lane] = self._network.connect(self._node_id, address)
        return connection

    def watch(self, node_id: NodeId, on_lost: Callable[[], None]) -> Watch:
        if node_id == self._node_id:
            return self._loopback.watch(node_id, on_lost)
        watch = self._network.watch(self._node_id, self._address_of(node_id) or ("nowhere", 0), on_lost)
        self._watches.append(watch)
        return watch

    def close(self) -> None:
        self._is_closed = True
        for watch in self._watches:
            watch.close()
        for connection in self._connections.values():
            self._network.hang_up(connection)
        for answer in self._unanswered:
            if not answer.done():
                answer.set_exception(ApiError(ErrorCode.NETWORK_EXCEPTION, "this node is stopping"))
