"""The leader's answers to fetches, and the high watermark that they move.

A fetch is an acknowledgement: all before its offset is on the fetcher's disk and agrees with our log up to there, which
the epoch of its last record proves. Whoever diverged is told where the epoch ended here; whoever is behind the log's
start is sent to the snapshot. Everyone else is parked, and answered when there are records, a newer watermark, or the
time is up: one path for all.
"""

from dataclasses import replace
from typing import Final

from ottla.base.errors import ErrorCode, invariant
from ottla.base.types import LeaderEpoch, Offset
from ottla.raft.effects import Answer, AnswerFetch, AnswerSnapshot
from ottla.raft.events import Ticket
from ottla.raft.lease import number_answer, on_acknowledged, on_snapshot_asked
from ottla.raft.messages import Fetch, FetchReply, FetchSnapshot, FetchSnapshotReply
from ottla.raft.node import QuorumNode
from ottla.raft.state import Leader, ParkedFetch, Progress
from ottla.raft.voters import ReplicaKey

OBSERVER_SILENCE_MS_MAX: Final = 300_000
"""An observer that has not fetched for so long is forgotten: brokers come and go for ever."""


def refusal(node: QuorumNode, epoch: LeaderEpoch) -> ErrorCode:
    """Why a request for the leader of `epoch` is not for us; NONE if it is."""
    if epoch < node.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > node.epoch:
        # An observer may be ahead of us; it is no reason to step down. A voter will ask for votes.
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NONE if isinstance(node.role, Leader) else ErrorCode.NOT_LEADER_OR_FOLLOWER


def on_fetch(node: QuorumNode, ticket: Ticket, request: Fetch) -> None:
    error = refusal(node, request.epoch)
    if request.fetch_offset < 0 or request.last_fetched_epoch < 0:
        error = ErrorCode.INVALID_REQUEST
    if not isinstance(node.role, Leader) or error is not ErrorCode.NONE:
        node.effects.append(Answer(ticket=ticket, reply=_reply(node, error)))
        return
    leader = node.role
    progress = _progress_of(node, leader, request.replica)
    on_acknowledged(progress, request.answer_id)
    correction = correction_of(node, request)
    if correction is not None:
        correction = replace(correction, answer_id=number_answer(node, leader, progress))
        node.effects.append(Answer(ticket=ticket, reply=correction))
        return
    # A request that was overtaken says less than is known: nobody gives up what it had in this epoch.
    progress.end_offset = max(progress.end_offset, request.fetch_offset)
    if request.fetch_offset == node.log.log_end_offset:
        progress.last_caught_up_ms = node.now_ms
    _release(node, leader, request.replica)
    wait_ms = min(request.max_wait_ms, node.settings.fetch_wait_ms_max)
    leader.parked.append(ParkedFetch(ticket=ticket, request=request, deadline_ms=node.now_ms + wait_ms))


def correction_of(node: QuorumNode, request: Fetch) -> FetchReply | None:
    """What the fetcher must mend before it can go on: None if its log is the first part of ours."""
    log = node.log
    offset, epoch = request.fetch_offset, request.last_fetched_epoch
    if offset == 0 and log.log_start_offset == 0:
        return None
    if offset < log.log_start_offset or (log.log_start_offset > 0 and epoch < log.first_epoch):
        invariant(log.snapshot_id is not None, "what is not in the log is in a snapshot", offset=offset)
        return FetchReply(
            epoch=node.epoch,
            leader_id=node.me.node_id,
            high_watermark=node.high_watermark,
            log_start_offset=log.log_start_offset,
            snapshot_id=log.snapshot_id,
        )
    end = log.end_of_epoch(epoch)
    if end.epoch == epoch and end.end_offset >= offset:
        return None
    return FetchReply(
        epoch=node.epoch,
        leader_id=node.me.node_id,
        high_watermark=node.high_watermark,
        log_start_offset=log.log_start_offset,
        diverging=end,
    )


def on_fetch_snapshot(node: QuorumNode, ticket: Ticket, request: FetchSnapshot) -> None:
    error = refusal(node, request.epoch)
    reply = FetchSnapshotReply(error=error, epoch=node.epoch, leader_id=node.leader_id, snapshot_id=request.snapshot_id)
    if not isinstance(node.role, Leader) or error is not ErrorCode.NONE:
        node.effects.append(Answer(ticket=ticket, reply=reply))
        return
    on_snapshot_asked(node, _progress_of(node, node.role, request.replica), request)
    node.effects.append(AnswerSnapshot(ticket=ticket, reply=reply, request=request))


def _progress_of(node: QuorumNode, leader: Leader, replica: ReplicaKey) -> Progress:
    """Any request in our epoch is a sign of life, also one that needs a correction."""
    progress = leader.progress.get(replica)
    if progress is None:
        _forget_silent_observers(node, leader)
        progress = leader.progress[replica] = Progress(last_fetch_ms=node.now_ms)
    progress.last_fetch_ms = node.now_ms
    return progress


def _forget_silent_observers(node: QuorumNode, leader: Leader) -> None:
    oldest_ms = node.now_ms - OBSERVER_SILENCE_MS_MAX
    for key, progress in list(leader.progress.items()):
        if progress.last_fetch_ms < oldest_ms and not node.voters.holds(key):
            del leader.progress[key]


# ---- the high watermark ----


def maybe_commit(node: QuorumNode, leader: Leader) -> None:
    ends = sorted((durable_end_of(node, leader, voter.key) for voter in node.voters), reverse=True)
    majority_end = ends[node.voters.majority_count - 1]
    if is_committed_by_count(leader, majority_end):
        node.maybe_advance_watermark(majority_end)


def durable_end_of(node: QuorumNode, leader: Leader, voter: ReplicaKey) -> Offset:
    if voter == node.me:
        return node.log.durable_end_offset
    progress = leader.progress.get(voter)
    return -1 if progress is None else progress.end_offset


def is_committed_by_count(leader: Leader, majority_end: Offset) -> bool:
    """Only once a record of our own epoch is on a majority: an older one there may still be replaced (Raft, figure 8)."""
    return majority_end > leader.epoch_start_offset


# ---- parked fetches ----


def answer_parked(node: QuorumNode, leader: Leader) -> None:
    still_parked = []
    for parked in leader.parked:
        if _has_news(node, parked):
            _answer(node, leader, parked)
        else:
            still_parked.append(parked)
    leader.parked[:] = still_parked


def _has_news(node: QuorumNode, parked: ParkedFetch) -> bool:
    request = parked.request
    return (
        node.log.log_end_offset > request.fetch_offset
        or node.high_watermark > request.high_watermark
        or node.now_ms >= parked.deadline_ms
    )


def _release(node: QuorumNode, leader: Leader, replica: ReplicaKey) -> None:
    """A replica waits once: who asks again has given the first question up."""
    for parked in [parked for parked in leader.parked if parked.request.replica == replica]:
        leader.parked.remove(parked)
        _answer(node, leader, parked)


def _answer(node: QuorumNode, leader: Leader, parked: ParkedFetch) -> None:
    answer_id = number_answer(node, leader, leader.progress[parked.request.replica])
    node.effects.append(
        AnswerFetch(
            ticket=parked.ticket,
            reply=replace(_reply(node, ErrorCode.NONE), answer_id=answer_id),
            from_offset=parked.request.fetch_offset,
            end_offset=node.log.log_end_offset,
        )
    )


def _reply(node: QuorumNode, error: ErrorCode) -> FetchReply:
    return FetchReply(
        error=error,
        epoch=node.epoch,
        leader_id=node.leader_id,
        high_watermark=node.high_watermark,
        log_start_offset=node.log.log_start_offset,
    )
