"""Effects, messages and nodes in a line of text each, for the transcripts of scenarios."""

from ottla.raft.effects import (
    Answer,
    AppendBatches,
    Committed,
    Effect,
    Flush,
    InstallSnapshot,
    PersistQuorumState,
    RoleChanged,
    TruncateLog,
)
from ottla.raft.log_view import KRaftVersion, LeaderChange, LogBatch
from ottla.raft.messages import (
    BeginEpoch,
    EndEpoch,
    Fetch,
    FetchReply,
    FetchSnapshot,
    FetchSnapshotReply,
    Reply,
    Request,
    Vote,
    VoteReply,
)
from ottla.raft.voters import VoterSet
from sim.raft_peer import MessageOut, RaftPeer, RequestOut


def told_effect(peer: RaftPeer, effect: Effect) -> list[str]:
    """Messages are told when they arrive."""
    match effect:
        case RoleChanged():
            what = f"is {effect.role.value} in epoch {effect.epoch}" + _led_by(effect.leader_id)
        case PersistQuorumState(state=state):
            voted = "" if state.voted is None else f", voted for {state.voted.node_id}"
            what = f"remembers epoch {state.epoch}{_led_by(state.leader_id)}{voted}"
        case AppendBatches():
            what = "appends " + ", ".join(told_batch(batch) for batch in effect.batches)
        case TruncateLog():
            what = f"truncates its log to {effect.to_offset}"
        case Flush():
            what = f"wants its log synced up to {effect.end_offset}"
        case Committed():
            what = f"knows all before {effect.high_watermark} to be committed"
        case InstallSnapshot():
            what = f"installs the snapshot {told_snapshot(effect.snapshot_id)}"
        case Answer(ticket=str()):
            what = f"tells the operator {effect.reply.error.name}"
        case _:
            return []
    return [f"  {peer.key.node_id} {what}"]


def _led_by(leader_id: int) -> str:
    return "" if leader_id < 0 else f" led by {leader_id}"


def told_batch(batch: LogBatch) -> str:
    match batch.control:
        case LeaderChange():
            what = f"LeaderChange to {batch.control.leader_id}"
        case KRaftVersion():
            what = f"kraft.version {batch.control.level}"
        case VoterSet():
            what = f"voters {list(batch.control.node_ids)}"
        case None:
            what = bytes(batch.data).decode()
    return f"{batch.base_offset}@{batch.epoch} {what}"


def told_snapshot(snapshot_id: tuple[int, int]) -> str:
    return "{}@{}".format(*snapshot_id)


def told_message(source: RaftPeer, target: RaftPeer, message: MessageOut) -> str:
    if isinstance(message, RequestOut):
        what = told_request(message.request)
    else:
        what = told_reply(message.reply)
        if message.batches:
            what += ": " + ", ".join(told_batch(batch) for batch in message.batches)
    return f"{source.key.node_id} → {target.key.node_id} {what}"


def told_request(request: Request) -> str:
    match request:
        case Vote():
            name = "PreVote" if request.is_pre_vote else "Vote"
            return f"{name} epoch {request.epoch}, log ends {request.log_end.end_offset}@{request.log_end.epoch}"
        case BeginEpoch():
            return f"BeginEpoch {request.epoch}"
        case EndEpoch():
            return f"EndEpoch {request.epoch}, next {[key.node_id for key in request.preferred_candidates]}"
        case Fetch():
            return f"Fetch epoch {request.epoch}, from {request.fetch_offset}@{request.last_fetched_epoch}"
        case FetchSnapshot():
            return f"FetchSnapshot {told_snapshot(request.snapshot_id)} from byte {request.position}"
        case _:
            return type(request).__name__


def told_reply(reply: Reply) -> str:
    parts = [type(reply).__name__, f"epoch {reply.epoch}{_led_by(reply.leader_id)}"]
    if reply.error:
        parts.append(reply.error.name)
    match reply:
        case VoteReply():
            parts.append("granted" if reply.is_granted else "refused")
        case FetchReply(diverging=diverging) if diverging is not None:
            parts.append(f"epoch {diverging.epoch} ends at {diverging.end_offset}")
        case FetchReply(snapshot_id=snapshot_id) if snapshot_id is not None:
            parts.append(f"see snapshot {told_snapshot(snapshot_id)}")
        case FetchReply(error=0):
            parts.append(f"committed {reply.high_watermark}")
        case FetchSnapshotReply():
            parts.append(f"bytes {reply.position} to {reply.position + len(reply.data)} of {reply.size}")
    return ", ".join(parts)


def told_status(peer: RaftPeer) -> str:
    node = peer.machine.node
    log = " ".join(told_batch(batch).split()[0] for batch in peer.disk.written.batches)
    return (
        f"  {peer.key.node_id} {node.role.name.value} in epoch {node.epoch}{_led_by(node.leader_id)}, voters "
        f"{list(node.voters.node_ids)}, committed {node.high_watermark}, log from {node.log.log_start_offset}: {log}"
    )
