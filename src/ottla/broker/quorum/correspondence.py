"""Requests to peers and answers to theirs: what the quorum's machine sends and what it is told.

Whoever asks waits for the machine's answer, which may come much later: a fetch is parked until there is something to
fetch. A connection that is refused or broken is told to the machine, which takes it for a death; an answer that does not
come is not: the machine has its own patience.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from ottla.base.errors import ApiError, ErrorCode, ProtocolError
from ottla.base.owned_tasks import OwnedTasks
from ottla.base.types import NO_NODE, NodeId
from ottla.broker.peers import PeerLost, Peers
from ottla.broker.quorum import exchange
from ottla.broker.quorum.exchange import Address, AddressBook, Ticket
from ottla.broker.quorum.leader_search import LeaderSearch
from ottla.broker.quorum.snapshot_exchange import read_piece
from ottla.broker.quorum.store import QuorumStore
from ottla.raft.effects import Answer, AnswerFetch, AnswerSnapshot, Send
from ottla.raft.events import ConnectionLost, Event, RequestReceived
from ottla.raft.messages import AddVoter, Reply
from ottla.raft.node import QuorumNode
from ottla.raft.state import Leader
from ottla.raft.voters import Voter, VoterSet
from ottla.raft.wire_requests import request_to_wire
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.message import Message

logger = logging.getLogger(__name__)

FETCH_BYTES_MAX: Final = 1 << 20
PROBE_SECONDS_MAX: Final = 1.0
API_VERSIONS_VERSION: Final = 4


class Correspondence:
    def __init__(
        self,
        node: QuorumNode,
        store: QuorumStore,
        *,
        cluster_id: str,
        tasks: OwnedTasks,
        step: Callable[[Event], None],
    ) -> None:
        """`node` is looked at, never changed."""
        self._node = node
        self._store = store
        self._cluster_id = cluster_id
        self._tasks = tasks
        self._step = step
        self.peers: Peers | None = None
        self._addresses = AddressBook()
        self._open_tickets: dict[Ticket, None] = {}
        self._refusal: ApiError | None = None
        self.search: Final = LeaderSearch(node.settings.bootstrap_ids)

    def address_of(self, node_id: NodeId) -> Address | None:
        settings = self._node.settings
        if node_id == settings.me.node_id:
            return next(((each.host, each.port) for each in settings.endpoints), None)
        return self._addresses.find(node_id, self._node.voters)

    def on_voters_changed(self, voters: VoterSet) -> None:
        self._addresses.on_voters_changed(voters)

    def stop(self, reason: ApiError) -> None:
        """Nobody waits for us any more."""
        self._refusal = reason
        for ticket in tuple(self._open_tickets):
            if not ticket.answer.done():
                ticket.answer.set_result(exchange.refusal(ticket.message, reason))

    # ---- what we ask ----

    def send(self, effect: Send) -> None:
        self._tasks.spawn(self._ask(effect), name="quorum request")

    async def _ask(self, effect: Send) -> None:
        assert self.peers is not None
        api_key, version = exchange.APIS[type(effect.request)]
        message = request_to_wire(effect.request, self._cluster_id)
        timeout_seconds = self._node.settings.request_timeout_ms / 1000
        event: Event
        try:
            response = await self.peers.ask(effect.to_id, api_key, version, message, timeout_seconds=timeout_seconds)
            event = exchange.reply_in(effect.to_id, effect.request_id, response)
            self._addresses.on_response(response)
            self.search.on_answer(effect.to_id, event.reply.error)
        except PeerLost:
            event = ConnectionLost(peer_id=effect.to_id)
        except ApiError:
            return
        except ProtocolError as error:
            logger.warning("node %d answers the quorum with nonsense: %s", effect.to_id, error)
            return
        self._step(event)

    # ---- what we are asked ----

    async def receive(self, message: Message) -> Message:
        """The answer to a request of the wire."""
        try:
            request = exchange.request_in(message, self._cluster_id)
            if self._refusal is not None:
                raise self._refusal
            if isinstance(request, AddVoter) and isinstance(self._node.role, Leader):
                await self._probe(request.voter)
        except ApiError as error:
            return exchange.refusal(message, error)
        self._addresses.on_request(request)
        ticket = Ticket(message, request)
        self._open_tickets[ticket] = None
        try:
            self._step(RequestReceived(ticket=ticket, request=request))
            return await ticket.answer
        finally:
            del self._open_tickets[ticket]

    async def _probe(self, voter: Voter) -> None:
        """A voter that the others cannot reach would be worse than none (KIP-853)."""
        assert self.peers is not None
        self._addresses.on_candidate(voter)
        request = api.ApiVersionsRequest(client_software_name="ottla", client_software_version="1")
        node_id = voter.key.node_id
        try:
            await self.peers.ask(
                node_id, ApiKey.API_VERSIONS, API_VERSIONS_VERSION, request, timeout_seconds=PROBE_SECONDS_MAX
            )
        except ApiError as error:
            message = f"Node {node_id} does not answer at the address it would be a voter with: {error.message}"
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, message) from error

    def answer(self, effect: Answer) -> None:
        self._reply(effect.ticket, effect.reply)

    def answer_fetch(self, effect: AnswerFetch) -> None:
        """Reads the log now: after a truncation the bytes would be another leader's."""
        try:
            records = self._store.read_now(effect.from_offset, effect.end_offset, FETCH_BYTES_MAX)
        except ApiError as error:  # A snapshot came in between: the next fetch is sent to it.
            self._reply(effect.ticket, replace(effect.reply, error=error.code))
            return
        if records is None:
            self._tasks.spawn(self._answer_fetch_later(effect), name="quorum fetch")
        else:
            self._reply(effect.ticket, effect.reply, records)

    async def _answer_fetch_later(self, effect: AnswerFetch) -> None:
        """From the disk. As long as this node leads, nothing of the log is another leader's."""
        store, reply, records = self._store, effect.reply, b""
        try:
            async with store.upkeep:
                records = await store.workers.run(store.read, effect.from_offset, effect.end_offset, FETCH_BYTES_MAX)
        except ApiError as error:
            reply = replace(reply, error=error.code)
        except OSError as error:
            logger.error("the metadata log cannot be read: %s", error)
            reply = replace(reply, error=ErrorCode.KAFKA_STORAGE_ERROR)
        if not isinstance(self._node.role, Leader) or self._node.epoch != effect.reply.epoch:
            reply, records = replace(reply, error=ErrorCode.NOT_LEADER_OR_FOLLOWER), b""
        self._reply(effect.ticket, reply, records)

    def answer_snapshot(self, effect: AnswerSnapshot) -> None:
        self._tasks.spawn(self._answer_snapshot(effect), name="quorum snapshot")

    async def _answer_snapshot(self, effect: AnswerSnapshot) -> None:
        try:
            reply = await read_piece(self._store, effect)
        except OSError as error:
            logger.error("a metadata snapshot cannot be read: %s", error)
            reply = replace(effect.reply, error=ErrorCode.SNAPSHOT_NOT_FOUND)
        self._reply(effect.ticket, reply)

    def _reply(self, ticket: Any, reply: Reply, records: bytes = b"") -> None:
        if not ticket.answer.done():
            leader_address = None if reply.leader_id == NO_NODE else self.address_of(reply.leader_id)
            ticket.answer.set_result(exchange.response_to(ticket, reply, leader_address, records))
