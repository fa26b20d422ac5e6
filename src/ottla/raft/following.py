"""The follower's side, which is an observer's, too: finding the leader, fetching from it, giving it up.

One fetch is under way at a time, and none before the log is durable up to its end: the fetch is the acknowledgement. A
log is truncated for one reason alone, that the leader says where an epoch of ours ended, and never below the watermark.
A refused or reset connection, or the leader's own word that it resigns, counts as an expired fetch time-out, both for
starting an election and for granting a pre-vote; a small random delay keeps followers from starting together.
"""

from ottla.base.errors import ErrorCode, invariant
from ottla.base.types import NO_NODE, LeaderEpoch, NodeId, Offset
from ottla.raft.effects import AppendBatches, TruncateLog
from ottla.raft.election import become_prospective, may_campaign, on_unreachable
from ottla.raft.log_view import LogBatch, LogView
from ottla.raft.messages import (
    NO_ANSWER,
    BeginEpoch,
    BeginEpochReply,
    EndEpoch,
    EndEpochReply,
    EpochEnd,
    Fetch,
    FetchReply,
    FetchSnapshot,
    Reply,
)
from ottla.raft.node import QuorumNode
from ottla.raft.state import Follower, Leader, SnapshotDownload, Unattached

# ---- asking ----


def drive_follower(node: QuorumNode, role: Follower) -> None:
    if node.is_installing:
        return
    if node.now_ms >= role.fetch_deadline_ms:
        if not may_campaign(node):
            node.become_unattached(node.epoch)
            return
        if node.now_ms >= node.yields_until_ms:
            become_prospective(node)
            return
    if not node.is_free(role.leader_id):
        return
    if role.download is not None:
        node.send(
            role.leader_id,
            FetchSnapshot(
                epoch=node.epoch,
                replica=node.me,
                snapshot_id=role.download.snapshot_id,
                position=role.download.position,
            ),
        )
    elif node.log.is_durable:
        node.send(role.leader_id, fetch_request(node))


def drive_unattached(node: QuorumNode, role: Unattached) -> None:
    """Waits for an election, and meanwhile asks one peer after the other who leads."""
    if node.now_ms >= max(role.election_deadline_ms, node.yields_until_ms) and may_campaign(node):
        become_prospective(node)
        return
    if node.is_installing or not node.log.is_durable:
        return
    peer_ids = sorted(whom_to_ask(node) - {node.me.node_id, NO_NODE})
    if peer_ids and all(node.is_free(peer_id) for peer_id in peer_ids):
        node.send(peer_ids[node.request_count % len(peer_ids)], fetch_request(node))


def whom_to_ask(node: QuorumNode) -> set[NodeId]:
    """Who may lead, or may know who does.

    The leader that this epoch is known to have is one of them: only its own answer makes a follower again, and whoever
    knows no voters, or old ones, would hear its name for ever and never ask it.
    """
    return {*node.voters.node_ids, *node.settings.bootstrap_ids, node.leader_id}


def fetch_request(node: QuorumNode) -> Fetch:
    end = node.log.durable_end
    return Fetch(
        epoch=node.epoch,
        replica=node.me,
        fetch_offset=end.end_offset,
        last_fetched_epoch=end.epoch,
        high_watermark=node.high_watermark,
        max_wait_ms=node.settings.fetch_wait_ms_max,
        answer_id=node.role.answer_id if isinstance(node.role, Follower) else NO_ANSWER,
    )


# ---- the leader's answer ----


def on_fetch_reply(node: QuorumNode, peer_id: NodeId, reply: FetchReply, batches: tuple[LogBatch, ...]) -> None:
    """The answer to the fetch under way: the log has not moved since it was sent."""
    role = heard_leader(node, peer_id, reply)
    if role is None:
        return
    role.answer_id = reply.answer_id
    if reply.snapshot_id is not None and reply.snapshot_id.end_offset >= node.high_watermark:
        role.download = SnapshotDownload(snapshot_id=reply.snapshot_id)
    elif reply.diverging is not None:
        truncate(node, truncation_offset(node.log, reply.diverging))
    elif reply.snapshot_id is None and follow_each_other(node.log, batches, reply.epoch):
        _append(node, batches)
        node.maybe_advance_watermark(min(reply.high_watermark, node.log.log_end_offset))
    else:
        node.pause(peer_id, node.settings.retry_backoff_ms)


def heard_leader(node: QuorumNode, peer_id: NodeId, reply: Reply) -> Follower | None:
    """The role in which to take the leader's answer; None if it is no leader's, or not in our epoch."""
    if reply.error is not ErrorCode.NONE or reply.epoch != node.epoch or reply.leader_id != peer_id:
        node.pause(peer_id, node.settings.retry_backoff_ms)
        has_resigned = reply.error is ErrorCode.NOT_LEADER_OR_FOLLOWER and reply.epoch == node.epoch
        if has_resigned and isinstance(node.role, Follower):
            suspect_leader(node, node.role, node.chance)
        return None
    follow(node, reply.epoch, peer_id)
    role = node.role
    assert isinstance(role, Follower)
    role.fetch_deadline_ms = node.now_ms + node.settings.fetch_timeout_ms
    role.has_fetched = True
    role.is_leader_suspected = False
    node.hear_leader(peer_id)
    return role


def truncation_offset(log: LogView, diverging: EpochEnd) -> Offset:
    """Where our log may first differ: the leader's records of `diverging.epoch` end there, or ours do."""
    ours = log.end_of_epoch(diverging.epoch)
    return min(ours.end_offset, diverging.end_offset) if ours.epoch == diverging.epoch else ours.end_offset


def truncate(node: QuorumNode, to_offset: Offset) -> None:
    invariant(to_offset >= node.high_watermark, "what is committed is never truncated",
              to=to_offset, high_watermark=node.high_watermark)  # fmt: skip
    node.log.truncate(to_offset)
    node.effects.append(TruncateLog(to_offset=to_offset))


def follow_each_other(log: LogView, batches: tuple[LogBatch, ...], epoch: LeaderEpoch) -> bool:
    """Whether `batches` go on where the log ends, in epochs that only grow and are not newer than their leader's."""
    offset, last_epoch = log.log_end_offset, log.last_epoch
    for batch in batches:
        if batch.base_offset != offset or not last_epoch <= batch.epoch <= epoch:
            return False
        offset, last_epoch = batch.end_offset, batch.epoch
    return True


def _append(node: QuorumNode, batches: tuple[LogBatch, ...]) -> None:
    for batch in batches:
        node.log.append(batch)
    if batches:
        node.effects.append(AppendBatches(batches=batches))


# ---- the leader comes and goes ----


def follow(node: QuorumNode, epoch: LeaderEpoch, leader_id: NodeId) -> None:
    """The leader itself has spoken to us, in an epoch not below ours."""
    if epoch > node.epoch or not isinstance(node.role, Follower):
        node.become_follower(epoch, leader_id)
    invariant(node.leader_id == leader_id, "one leader per epoch", epoch=epoch, known=node.leader_id, new=leader_id)


def answer_begin_epoch(node: QuorumNode, request: BeginEpoch) -> BeginEpochReply:
    error = ErrorCode.NONE
    if request.voter != node.me:
        error = ErrorCode.INVALID_VOTER_KEY
    elif request.leader_id == node.me.node_id:
        error = ErrorCode.INVALID_REQUEST
    elif request.epoch < node.epoch:
        error = ErrorCode.FENCED_LEADER_EPOCH
    else:
        follow(node, request.epoch, request.leader_id)
    return BeginEpochReply(error=error, epoch=node.epoch, leader_id=node.leader_id)


def answer_end_epoch(node: QuorumNode, request: EndEpoch) -> EndEpochReply:
    error = ErrorCode.NONE
    if request.leader_id == node.me.node_id:
        error = ErrorCode.INVALID_REQUEST
    elif request.epoch < node.epoch:
        error = ErrorCode.FENCED_LEADER_EPOCH
    else:
        node.learn(request.epoch, request.leader_id)
        if isinstance(node.role, Follower):
            suspect_leader(node, node.role, _turn(node, request))
    return EndEpochReply(error=error, epoch=node.epoch, leader_id=node.leader_id)


def _turn(node: QuorumNode, request: EndEpoch) -> float:
    """When it is our turn: the first of the preferred starts at once, the others behind it in their order."""
    if node.me not in request.preferred_candidates:
        return len(request.preferred_candidates) + node.chance
    position = request.preferred_candidates.index(node.me)
    return position + node.chance if position else 0.0


def on_connection_lost(node: QuorumNode, peer_id: NodeId) -> None:
    # Who leads need not be there first when a peer comes back: it will ask for its leader by itself.
    is_leader = isinstance(node.role, Leader)
    node.pause(peer_id, node.settings.fetch_timeout_ms // 4 if is_leader else node.settings.retry_backoff_ms)
    on_unreachable(node, peer_id)
    if isinstance(node.role, Follower) and node.role.leader_id == peer_id:
        suspect_leader(node, node.role, node.chance)


def suspect_leader(node: QuorumNode, role: Follower, turn: float) -> None:
    role.is_leader_suspected = True
    node.hear_leader(role.leader_id)  # It is not its silence that makes the election.
    soon_ms = node.now_ms + round(turn * node.settings.suspicion_jitter_ms)
    role.fetch_deadline_ms = min(role.fetch_deadline_ms, soon_ms)
