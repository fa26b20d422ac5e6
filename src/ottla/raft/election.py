"""Elections: a node asks whether it would win (pre-vote), then takes an epoch and asks for real.

A vote is granted once per epoch, to a log at least as up to date as ours, and is on disk before it leaves. A pre-vote
promises nothing and is granted by everyone who does not hear a leader. What a candidate claims of its log is the durable
part, what a voter defends is all of its own: each errs on the safe side.

Followers notice a dead leader at the same moment. So that they do not split the votes, who grants a pre-vote lets the
other go first, once and for a short while; of two that ask each other, the better log or the lower id has precedence.
"""

from typing import Final

from ottla.base.errors import ErrorCode
from ottla.base.types import NO_NODE, NodeId
from ottla.raft.leading import become_leader
from ottla.raft.messages import Vote, VoteReply
from ottla.raft.node import QuorumNode
from ottla.raft.quorum_state import QuorumState
from ottla.raft.state import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from ottla.raft.voters import ReplicaKey

Campaign = Prospective | Candidate

PRE_VOTE_AGAIN_BACKOFFS: Final = 5


# ---- asking ----


def become_prospective(node: QuorumNode) -> None:
    """The epoch stays: nobody is disturbed who hears a leader."""
    role = Prospective(election_deadline_ms=node.random_election_deadline_ms(), granted=_own_vote(node))
    node.move_to(role, node.state)


def become_candidate(node: QuorumNode) -> None:
    role = Candidate(election_deadline_ms=node.random_election_deadline_ms(), granted=_own_vote(node))
    node.move_to(role, QuorumState(epoch=node.epoch + 1, voted=node.me))


def _own_vote(node: QuorumNode) -> set[NodeId]:
    return {node.me.node_id} if node.is_voter else set()


def may_campaign(node: QuorumNode) -> bool:
    """Also who is removed by a set that may not be committed: it may be the only one who can commit it.

    Its own vote does not count then (§4.2.2 of the dissertation). Observers never do.
    """
    return node.log.voters.may_hold(node.me, node.high_watermark) and not node.is_installing


def drive_campaign(node: QuorumNode, role: Campaign) -> None:
    if len(role.granted) >= node.voters.majority_count:
        _on_won(node, role)
        return
    if node.now_ms >= role.election_deadline_ms or (isinstance(role, Prospective) and _has_lost(node, role)):
        _on_lost(node, role)
        return
    for voter in node.peer_voters:
        # Who refused a pre-vote may have lost the leader since.
        is_final = voter.node_id in role.granted or (voter.node_id in role.rejected and isinstance(role, Candidate))
        if not is_final and node.is_free(voter.node_id):
            node.send(voter.node_id, _vote_request(node, role, voter))


def _vote_request(node: QuorumNode, role: Campaign, voter: ReplicaKey) -> Vote:
    is_pre_vote = isinstance(role, Prospective)
    return Vote(epoch=node.epoch, candidate=node.me, voter=voter, log_end=node.log.durable_end, is_pre_vote=is_pre_vote)


def on_vote_reply(node: QuorumNode, peer_id: NodeId, reply: VoteReply) -> None:
    role = node.role
    if not isinstance(role, Prospective | Candidate):
        return
    if reply.is_granted:
        role.granted.add(peer_id)
    elif reply.error in (ErrorCode.NONE, ErrorCode.INVALID_VOTER_KEY):
        node.pause(peer_id, PRE_VOTE_AGAIN_BACKOFFS * node.settings.retry_backoff_ms)
        _on_rejected(node, role, peer_id)
    else:
        node.pause(peer_id, node.settings.retry_backoff_ms)


def on_unreachable(node: QuorumNode, peer_id: NodeId) -> None:
    """Who refuses connections will not vote in this round: to wait for it would cost an election time-out."""
    role = node.role
    if peer_id not in node.voters.node_ids or not isinstance(role, Prospective | Candidate):
        return
    if peer_id not in role.granted:
        _on_rejected(node, role, peer_id)


def _on_rejected(node: QuorumNode, role: Campaign, peer_id: NodeId) -> None:
    role.rejected.add(peer_id)
    if isinstance(role, Candidate) and _has_lost(node, role):
        # A random while, so that two candidates which split the votes do not meet again.
        pause_ms = round(node.settings.election_backoff_ms_max * node.chance)
        role.election_deadline_ms = min(role.election_deadline_ms, node.now_ms + pause_ms)


def _has_lost(node: QuorumNode, role: Campaign) -> bool:
    return len(role.rejected) > len(node.voters) - node.voters.majority_count


def _on_won(node: QuorumNode, role: Campaign) -> None:
    if isinstance(role, Prospective):
        become_candidate(node)
    else:
        become_leader(node, role)


def _on_lost(node: QuorumNode, role: Campaign) -> None:
    if isinstance(role, Candidate):
        become_prospective(node)
    elif node.leader_id not in (NO_NODE, node.me.node_id):
        node.become_follower(node.epoch, node.leader_id)
    else:
        node.become_unattached(node.epoch)


# ---- being asked ----


def answer_vote(node: QuorumNode, request: Vote) -> VoteReply:
    if request.voter != node.me:
        return _refuse(node, ErrorCode.INVALID_VOTER_KEY)
    if request.epoch < node.epoch:
        return _refuse(node, ErrorCode.FENCED_LEADER_EPOCH)
    node.learn(request.epoch, NO_NODE)
    is_granted = may_grant_pre_vote(node, request) if request.is_pre_vote else may_grant_vote(node, request)
    if is_granted and request.is_pre_vote:
        _maybe_yield(node)
    elif is_granted:
        _record_vote(node, request.candidate)
    return VoteReply(epoch=node.epoch, leader_id=node.leader_id, is_granted=is_granted)


def may_grant_vote(node: QuorumNode, request: Vote) -> bool:
    """The candidate need not be a voter by our log, nor need we: its log may be newer (Raft §6)."""
    if node.state.voted is not None:
        return node.state.voted == request.candidate
    return node.leader_id == NO_NODE and node.log.is_covered_by(request.log_end)


def may_grant_pre_vote(node: QuorumNode, request: Vote) -> bool:
    match node.role:
        case Leader():
            return False
        case Follower(has_fetched=has_fetched, is_remembered=is_remembered, is_leader_suspected=False) if (
            has_fetched or is_remembered
        ):
            return False
        case Prospective() as role if _precedes(node, role, request):
            return False
        case Follower() | Unattached() | Prospective() | Candidate() | Resigned():
            return node.log.is_covered_by(request.log_end)


def _precedes(node: QuorumNode, role: Prospective, request: Vote) -> bool:
    """Whether this node, which asks as well, should rather be elected than the one that asks it; it may be, still."""
    if node.settings.yield_ms == 0 or request.candidate.node_id in role.rejected:
        return False
    ours = (node.log.durable_end, -node.me.node_id)
    return ours > (request.log_end, -request.candidate.node_id)


def _maybe_yield(node: QuorumNode) -> bool:
    """Not again for a while: who can never win must not keep us from standing for ever."""
    settings = node.settings
    if settings.yield_ms == 0 or node.now_ms < node.yields_until_ms + settings.election_timeout_ms:
        return False
    node.yields_until_ms = node.now_ms + round(settings.yield_ms * (1 + node.chance))
    if isinstance(node.role, Prospective):
        _on_lost(node, node.role)
        match node.role:
            case Follower() as role:
                role.fetch_deadline_ms = node.yields_until_ms
            case Unattached() as role:
                role.election_deadline_ms = node.yields_until_ms
    return True


def _record_vote(node: QuorumNode, candidate: ReplicaKey) -> None:
    if node.state.voted == candidate:
        return
    # The election time-out begins anew: the candidate has a better chance than we have.
    role = Unattached(election_deadline_ms=node.random_election_deadline_ms())
    node.move_to(role, QuorumState(epoch=node.epoch, voted=candidate))


def _refuse(node: QuorumNode, error: ErrorCode) -> VoteReply:
    return VoteReply(error=error, epoch=node.epoch, leader_id=node.leader_id, is_granted=False)
