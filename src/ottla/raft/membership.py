"""Changing the voters at run time, one at a time (KIP-853, Raft §4.2 of the dissertation).

Any majority of the old set and any majority of the new one have a node in common as long as they differ by one voter, so
one record is enough. Two more rules make that true: the leader has committed a record of its own epoch, or a change of
another leader's might still be waiting in some log; and the set before is committed. A new voter is caught up first, as
an observer. The reply comes with the commit.
"""

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import Offset
from ottla.raft import serving
from ottla.raft.effects import Answer
from ottla.raft.events import Ticket
from ottla.raft.messages import AddVoter, RemoveVoter, UpdateVoter, VoterChangeReply
from ottla.raft.node import QuorumNode
from ottla.raft.state import Leader, VoterChange
from ottla.raft.voters import ReplicaKey, VoterSet

Request = AddVoter | RemoveVoter | UpdateVoter


def on_voter_change(node: QuorumNode, ticket: Ticket, request: Request) -> None:
    try:
        leader = _leader_for(node, request)
        if isinstance(request, UpdateVoter) and request.voter in node.voters.voters:
            _answer(node, ticket, ErrorCode.NONE)
            return
        check_no_other_change(node, leader)
        changed_set(node.voters, request)
    except ApiError as error:
        _answer(node, ticket, error.code, error.message)
        return
    timeout_ms = request.timeout_ms if isinstance(request, AddVoter) else node.settings.request_timeout_ms
    leader.change = VoterChange(
        request=request,
        ticket=ticket,
        deadline_ms=node.now_ms + timeout_ms,
        caught_up_offset=node.high_watermark,
    )


def _leader_for(node: QuorumNode, request: Request) -> Leader:
    epoch = request.epoch if isinstance(request, UpdateVoter) else node.epoch
    error = serving.refusal(node, epoch)
    if not isinstance(node.role, Leader) or error is not ErrorCode.NONE:
        raise ApiError(error, "Only the leader of the quorum changes its voters.")
    return node.role


def check_no_other_change(node: QuorumNode, leader: Leader) -> None:
    if not serving.is_committed_by_count(leader, node.high_watermark):
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "The leader has not committed in its epoch yet; try again.")
    if leader.change is not None or node.log.voters.latest_offset >= node.high_watermark:
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "Another change of voters is not committed yet; try again.")


def changed_set(voters: VoterSet, request: Request) -> VoterSet:
    match request:
        case AddVoter():
            if request.voter.key.node_id in voters.node_ids:
                raise ApiError(
                    ErrorCode.DUPLICATE_VOTER,
                    f"Node {request.voter.key.node_id} is a voter already; remove it first if its disk was replaced.",
                )
            return voters.with_voter(request.voter)
        case RemoveVoter():
            _check_present(voters, request.key)
            if len(voters) == 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "The last voter cannot be removed; add another one first.")
            return voters.without(request.key)
        case UpdateVoter():
            _check_present(voters, request.voter.key)
            return voters.with_voter(request.voter)


def _check_present(voters: VoterSet, key: ReplicaKey) -> None:
    if not voters.holds(key):
        raise ApiError(
            ErrorCode.VOTER_NOT_FOUND, f"No voter has node id {key.node_id} and directory id {key.directory_id}."
        )


# ---- until it is committed ----


def drive_change(node: QuorumNode, leader: Leader) -> None:
    change = leader.change
    if change is None:
        return
    if change.offset is None and is_ready(node, leader, change):
        change.offset = append_change(node, change.request)
        if isinstance(change.request, AddVoter) and not change.request.ack_when_committed:
            _tell(node, change, ErrorCode.NONE)
    if change.offset is not None and node.high_watermark > change.offset:
        _tell(node, change, ErrorCode.NONE)
        leader.change = None
    elif node.now_ms >= change.deadline_ms:
        _tell(node, change, ErrorCode.REQUEST_TIMED_OUT, "The change of voters is not committed in time.")
        if change.offset is None:
            leader.change = None


def is_ready(node: QuorumNode, leader: Leader, change: VoterChange) -> bool:
    """A new voter counts towards the commit of its own addition: it must be near, and alive."""
    if not isinstance(change.request, AddVoter):
        return True
    progress = leader.progress.get(change.request.voter.key)
    if progress is None or node.now_ms - progress.last_fetch_ms > node.settings.fetch_timeout_ms:
        return False
    return progress.end_offset >= change.caught_up_offset


def append_change(node: QuorumNode, request: Request) -> Offset:
    return node.append_as_leader(changed_set(node.voters, request)).base_offset


def _tell(node: QuorumNode, change: VoterChange, error: ErrorCode, message: str | None = None) -> None:
    if change.ticket is not None:
        _answer(node, change.ticket, error, message)
        change.ticket = None


def _answer(node: QuorumNode, ticket: Ticket, error: ErrorCode, message: str | None = None) -> None:
    reply = VoterChangeReply(error=error, epoch=node.epoch, leader_id=node.leader_id, message=message)
    node.effects.append(Answer(ticket=ticket, reply=reply))
