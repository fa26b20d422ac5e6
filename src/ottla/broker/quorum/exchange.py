"""Requests and replies of the quorum on their way: messages of the wire, where peers are, and who waits for an answer.

Every answer that names a leader says where it is, for an observer that knows nobody but those it was told to ask.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from ottla.base.errors import ApiError, ErrorCode, ProtocolError
from ottla.base.types import NO_NODE, NodeId
from ottla.raft.control_records import decode_batches
from ottla.raft.describe import QuorumStatus
from ottla.raft.events import ReplyReceived
from ottla.raft.log_view import LogBatch
from ottla.raft.messages import (
    AddVoter,
    BeginEpoch,
    EndEpoch,
    Fetch,
    FetchReply,
    FetchSnapshot,
    RemoveVoter,
    Reply,
    Request,
    UpdateVoter,
    Vote,
    VoterChangeReply,
)
from ottla.raft.voters import Endpoint, Voter, VoterSet
from ottla.raft.wire_replies import (
    fetch_reply_to_wire,
    reply_of_wire,
    reply_to_wire,
    status_to_wire,
    voter_change_to_wire,
)
from ottla.raft.wire_requests import PARTITION, TOPIC, TOPIC_ID, request_of_wire
from ottla.wire import api
from ottla.wire.apis import API_INFO, ApiKey
from ottla.wire.message import Message

# What each request travels as, and in which version.
APIS: Final[dict[type, tuple[ApiKey, int]]] = {
    Vote: (ApiKey.VOTE, 2),
    BeginEpoch: (ApiKey.BEGIN_QUORUM_EPOCH, 1),
    EndEpoch: (ApiKey.END_QUORUM_EPOCH, 1),
    Fetch: (ApiKey.FETCH, 18),
    FetchSnapshot: (ApiKey.FETCH_SNAPSHOT, 1),
    AddVoter: (ApiKey.ADD_RAFT_VOTER, 1),
    RemoveVoter: (ApiKey.REMOVE_RAFT_VOTER, 0),
    UpdateVoter: (ApiKey.UPDATE_RAFT_VOTER, 0),
}

Address = tuple[str, int]


class Ticket:
    """Whoever asked, waiting for the answer as a message."""

    __slots__ = ("answer", "message", "request")

    def __init__(self, message: Message, request: Request) -> None:
        self.message: Final = message
        self.request: Final = request
        self.answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()


class AddressBook:
    """Where the nodes of the quorum are: leaders say it themselves, the voter set does of its voters."""

    def __init__(self) -> None:
        self._leaders: dict[NodeId, Address] = {}
        self._candidates: dict[NodeId, Address] = {}

    def find(self, node_id: NodeId, voters: VoterSet) -> Address | None:
        known = self._leaders.get(node_id)
        if known is None:
            for voter in voters.voters:
                if voter.key.node_id == node_id and voter.endpoints:
                    return _address(voter.endpoints)
        return known or self._candidates.get(node_id)

    def on_request(self, request: Request) -> None:
        if isinstance(request, BeginEpoch | EndEpoch) and request.leader_endpoints:
            self._leaders[request.leader_id] = _address(request.leader_endpoints)

    def on_response(self, response: Any) -> None:
        for endpoint in response.node_endpoints:
            self._leaders[endpoint.node_id] = (endpoint.host, endpoint.port)

    def on_candidate(self, voter: Voter) -> None:
        """Wants to become a voter."""
        if voter.endpoints:
            self._candidates[voter.key.node_id] = _address(voter.endpoints)

    def on_voters_changed(self, voters: VoterSet) -> None:
        """The new set says it better."""
        for voter in voters:
            self._leaders.pop(voter.key.node_id, None)
            self._candidates.pop(voter.key.node_id, None)


def _address(endpoints: Sequence[Endpoint]) -> Address:
    return endpoints[0].host, endpoints[0].port


# ---- out ----


def response_to(ticket: Ticket, reply: Reply, leader_address: Address | None, records: bytes = b"") -> Message:
    if isinstance(reply, VoterChangeReply):
        assert isinstance(ticket.request, AddVoter | RemoveVoter | UpdateVoter)
        return voter_change_to_wire(ticket.request, reply)
    response: Any = fetch_reply_to_wire(reply, records) if isinstance(reply, FetchReply) else reply_to_wire(reply)
    if leader_address is not None:
        host, port = leader_address
        response.node_endpoints = [type(response).NodeEndpoint(node_id=reply.leader_id, host=host, port=port)]
    return response  # type: ignore[no-any-return]


def refusal(message: Message, error: ApiError) -> Message:
    """The request as a whole is refused."""
    response: Any = _RESPONSES[type(message)](error_code=error.code)
    if hasattr(response, "error_message"):
        response.error_message = error.message
    return response  # type: ignore[no-any-return]


_RESPONSES: Final[dict[type, type[Message]]] = {
    API_INFO[key].request: API_INFO[key].response
    for key in (*(key for key, _ in APIS.values()), ApiKey.DESCRIBE_QUORUM)
}


def description(
    request: api.DescribeQuorumRequest, status: QuorumStatus, wall_ms_at_zero: int, *, is_leader: bool
) -> api.DescribeQuorumResponse:
    """`wall_ms_at_zero`: the wall clock's time when the machine's was 0."""
    response = status_to_wire(status, wall_ms_at_zero)
    response.error_message = None
    (found,) = response.topics[0].partitions
    found.error_message = None
    if not is_leader:
        found.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    kind = api.DescribeQuorumResponse

    def described(topic: str, partition: int) -> api.DescribeQuorumResponse.PartitionData:
        if (topic, partition) == (TOPIC, PARTITION):
            return found
        return kind.PartitionData(
            partition_index=partition,
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            error_message=f"Only {TOPIC}-{PARTITION} has a quorum.",
            leader_id=NO_NODE,
        )

    response.topics = [
        kind.TopicData(
            topic_name=topic.topic_name,
            partitions=[described(topic.topic_name, each.partition_index) for each in topic.partitions],
        )
        for topic in request.topics
    ]
    return response


# ---- in ----


def request_in(message: Any, cluster_id: str) -> Request:
    """`ApiError` if it is not for us."""
    if message.cluster_id not in (None, cluster_id):
        raise ApiError(ErrorCode.INCONSISTENT_CLUSTER_ID, f"This is cluster {cluster_id}.")
    if not is_about_quorum(message):
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Only {TOPIC}-{PARTITION} has a quorum.")
    try:
        return request_of_wire(message)
    except ProtocolError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from None


def is_about_quorum(message: Any) -> bool:
    """Whether the topic it is about is the metadata log, where it names one at all."""
    match message:
        case api.FetchRequest():
            return len(message.topics) == 1 and message.topics[0].topic_id == TOPIC_ID
        case api.FetchSnapshotRequest():
            return [topic.name for topic in message.topics] == [TOPIC]
        case api.VoteRequest() | api.BeginQuorumEpochRequest() | api.EndQuorumEpochRequest():
            return [topic.topic_name for topic in message.topics] == [TOPIC]
        case _:
            return True


def reply_in(peer_id: NodeId, request_id: int, response: Any) -> ReplyReceived:
    """`ProtocolError` if it is no answer of a quorum."""
    reply = reply_of_wire(response)
    batches: tuple[LogBatch, ...] = ()
    if isinstance(reply, FetchReply):
        records = response.responses[0].partitions[0].records
        batches = decode_batches(memoryview(records or b""))
    return ReplyReceived(peer_id=peer_id, request_id=request_id, reply=reply, batches=batches)
