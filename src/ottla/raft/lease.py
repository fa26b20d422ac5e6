"""Until when a leader that nobody hears may believe that there is no other, and what its successor knows of that.

A follower that was given an answer does not help to elect anybody else for a fetch time-out. So a leader's lease counts
from the last answers that a majority is known to have got: each bears a number, and the next request brings it back. That a
request came says nothing: it may have waited in a buffer while this process stood still, and its sender has given us up.

    another is elected  >=  `confirmed_ms` of the old leader + fetch time-out

It holds where silence made the election. A reset connection makes one at once, and is believed to tell a death (`PeerLost`);
a leader that resigns knows of it. After both the successor claims no silence.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.base.types import NO_NODE, NodeId
from ottla.raft.messages import FetchSnapshot
from ottla.raft.node import QuorumNode
from ottla.raft.state import Leader, Progress
from ottla.raft.voters import ReplicaKey

ANSWER_ID_MAX: Final = 2**31 - 1  # An int32 on the wire.


class SilentLeader(NamedTuple):
    """Nobody who elected this leader had heard of the one before for so long: an upper bound of when its lease began."""

    leader_id: NodeId
    heard_ms: int


# ---- the leader ----


def number_answer(node: QuorumNode, leader: Leader, progress: Progress) -> int:
    """For an answer that leaves now."""
    leader.answer_count = leader.answer_count % ANSWER_ID_MAX + 1
    progress.answer_id, progress.answered_ms = leader.answer_count, node.now_ms
    return progress.answer_id


def on_acknowledged(progress: Progress, answer_id: int) -> None:
    if answer_id == progress.answer_id:
        progress.confirmed_ms = max(progress.confirmed_ms, progress.answered_ms)


def on_snapshot_asked(node: QuorumNode, progress: Progress, request: FetchSnapshot) -> None:
    """Pieces bear no numbers: who asks for a later one has got the one before."""
    before = progress.piece
    if before is not None and request.snapshot_id == before.snapshot_id and request.position > before.position:
        progress.confirmed_ms = max(progress.confirmed_ms, progress.piece_ms)
    if before is None or request.snapshot_id != before.snapshot_id or request.position > before.position:
        progress.piece, progress.piece_ms = request, node.now_ms


def confirmed_ms(node: QuorumNode, leader: Leader) -> int | None:
    """Then this node was the leader that a majority followed, and for a fetch time-out more. None: it needs nobody."""

    def of_voter(voter: ReplicaKey) -> int:
        progress = leader.progress.get(voter)
        return leader.elected_at_ms if progress is None else max(progress.confirmed_ms, leader.elected_at_ms)

    return majority_ms(node, of_voter)


def majority_ms(node: QuorumNode, ms_of: Callable[[ReplicaKey], int]) -> int | None:
    """The latest time that holds for a majority, this node among it; None for one that needs nobody else."""
    needed_count = node.voters.majority_count - node.is_voter
    if needed_count == 0:
        return None
    return sorted((ms_of(voter) for voter in node.peer_voters), reverse=True)[needed_count - 1]


# ---- its successor ----


def silent_leader(node: QuorumNode, leader: Leader) -> SilentLeader | None:
    """The leader before this one, if it was its silence that ended its time."""
    heard = node.heard_leader
    latest_ms = leader.elected_at_ms - node.settings.fetch_timeout_ms
    if heard.leader_id in (NO_NODE, node.me.node_id) or heard.heard_ms > latest_ms:
        return None
    return SilentLeader(heard.leader_id, latest_ms)
