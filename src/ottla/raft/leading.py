"""The leader's side that is not about fetches: how an epoch begins, how a leader notices that nobody follows, how it ends.

The first record of an epoch is a LeaderChange: only records of its own epoch are committed by counting (Raft §5.4.2), and
this one is there even if nobody has anything to write. BeginEpoch tells voters that have not fetched; a leader that a
majority does not fetch from resigns (check quorum), since its clients wait in vain; one that is told to stop, or is no
voter any more, resigns as well. Resigning names the successors in the order of their logs, so that the best one starts at
once.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from ottla.base.errors import ErrorCode
from ottla.base.types import NodeId
from ottla.raft import membership, serving
from ottla.raft.lease import majority_ms
from ottla.raft.log_view import KRaftVersion, LeaderChange
from ottla.raft.messages import BeginEpoch, BeginEpochReply, EndEpoch
from ottla.raft.node import QuorumNode
from ottla.raft.state import Candidate, Leader, Resigned
from ottla.raft.voters import NOT_IN_LOG, ReplicaKey

KRAFT_VERSION_WITH_VOTERS: Final = 1
"""The first level of `kraft.version` at which the log says who votes."""


def become_leader(node: QuorumNode, candidate: Candidate) -> None:
    leader = Leader(elected_at_ms=node.now_ms, epoch_start_offset=node.log.log_end_offset)
    node.move_to(leader, replace(node.state, leader_id=node.me.node_id))
    granting_ids = tuple(sorted(candidate.granted))
    node.append_as_leader(LeaderChange(leader_id=node.me.node_id, voters=node.voters, granting_ids=granting_ids))
    if node.log.voters.latest_offset == NOT_IN_LOG:
        # The set the node was formatted with goes into the log: from here on the log alone says who votes.
        node.append_as_leader(KRaftVersion(level=KRAFT_VERSION_WITH_VOTERS))
        node.append_as_leader(node.voters)


def drive_leader(node: QuorumNode, leader: Leader) -> None:
    serving.maybe_commit(node, leader)
    membership.drive_change(node, leader)
    deadline_ms = check_quorum_deadline_ms(node, leader)
    has_lost_majority = deadline_ms is not None and node.now_ms >= deadline_ms
    if has_lost_majority or is_removed(node):
        resign(node, leader)
        return
    for voter in node.peer_voters:
        if begin_epoch_due_ms(node, leader, voter) <= node.now_ms and node.is_free(voter.node_id):
            node.send(
                voter.node_id,
                BeginEpoch(
                    epoch=node.epoch,
                    leader_id=node.me.node_id,
                    voter=voter,
                    leader_endpoints=node.settings.endpoints,
                ),
            )
    serving.answer_parked(node, leader)


def is_removed(node: QuorumNode) -> bool:
    """Whether a committed set is without us. Until it is committed we lead on, without a voice of our own (Raft §6)."""
    return not node.is_voter and node.log.voters.latest_offset < node.high_watermark


def check_quorum_deadline_ms(node: QuorumNode, leader: Leader) -> int | None:
    """When the last majority of fetches is too long ago; None for a leader that needs nobody else."""
    heard_ms = majority_ms(node, lambda voter: last_heard_ms(leader, voter))
    return None if heard_ms is None else heard_ms + node.settings.check_quorum_timeout_ms


def last_heard_ms(leader: Leader, voter: ReplicaKey) -> int:
    progress = leader.progress.get(voter)
    return leader.elected_at_ms if progress is None else progress.last_fetch_ms


def begin_epoch_due_ms(node: QuorumNode, leader: Leader, voter: ReplicaKey) -> int:
    """At once for who has never fetched in this epoch, later for who fell silent."""
    progress = leader.progress.get(voter)
    if progress is None:
        return leader.elected_at_ms
    return progress.last_fetch_ms + node.settings.fetch_timeout_ms // 2


def on_begin_epoch_reply(node: QuorumNode, peer_id: NodeId, reply: BeginEpochReply) -> None:
    is_told = reply.error == ErrorCode.NONE
    node.pause(peer_id, node.settings.fetch_timeout_ms // 2 if is_told else node.settings.retry_backoff_ms)


# ---- the end ----


def resign(node: QuorumNode, leader: Leader) -> None:
    def order(voter: ReplicaKey) -> tuple[int, NodeId]:
        progress = leader.progress.get(voter)
        return (0 if progress is None else -progress.end_offset, voter.node_id)

    successors = tuple(sorted(node.peer_voters, key=order))
    role = Resigned(
        election_deadline_ms=node.random_election_deadline_ms(),
        preferred_candidates=successors,
        untold={successor.node_id for successor in successors},
    )
    node.move_to(role, node.state)


def on_resign_asked(node: QuorumNode) -> None:
    if isinstance(node.role, Leader) and not node.is_sole_voter:
        resign(node, node.role)


def drive_resigned(node: QuorumNode, role: Resigned) -> None:
    if node.now_ms >= role.election_deadline_ms:
        # In an epoch that it has led a node can be nothing but its leader: it goes on in the next one.
        node.become_unattached(node.epoch + 1)
        return
    for peer_id in sorted(role.untold):
        if node.is_free(peer_id):
            node.send(
                peer_id,
                EndEpoch(
                    epoch=node.epoch,
                    leader_id=node.me.node_id,
                    preferred_candidates=role.preferred_candidates,
                    leader_endpoints=node.settings.endpoints,
                ),
            )


def on_end_epoch_reply(node: QuorumNode, peer_id: NodeId) -> None:
    if isinstance(node.role, Resigned):
        node.role.untold.discard(peer_id)


def deadlines_ms(node: QuorumNode, leader: Leader) -> Iterator[int]:
    quorum_deadline_ms = check_quorum_deadline_ms(node, leader)
    if quorum_deadline_ms is not None:
        yield quorum_deadline_ms
    yield from (begin_epoch_due_ms(node, leader, voter) for voter in node.peer_voters)
    yield from (parked.deadline_ms for parked in leader.parked)
    if leader.change is not None:
        yield leader.change.deadline_ms
