"""Snapshots replace a first part of the log; a follower that needs that part downloads one instead (KIP-630).

A download belongs to the follower role and to one leader's epoch: it starts over with the next. Once it is whole, the
driver installs it, and until it says so this node neither fetches nor campaigns, because its log is about to change under
it. It may still vote: what it knows of its log is less than what it will have.
"""

from ottla.base.errors import invariant
from ottla.base.types import NodeId
from ottla.raft.effects import InstallSnapshot, WriteSnapshotChunk
from ottla.raft.events import SnapshotInstalled, SnapshotTaken
from ottla.raft.following import heard_leader
from ottla.raft.messages import FetchSnapshotReply
from ottla.raft.node import QuorumNode
from ottla.raft.state import Follower


def on_snapshot_taken(node: QuorumNode, event: SnapshotTaken) -> None:
    invariant(event.snapshot_id.end_offset <= node.high_watermark, "a snapshot holds what is committed",
              snapshot=event.snapshot_id, high_watermark=node.high_watermark)  # fmt: skip
    node.log.on_snapshot(event.snapshot_id, event.log_start_offset)


def on_fetch_snapshot_reply(node: QuorumNode, peer_id: NodeId, reply: FetchSnapshotReply) -> None:
    role = heard_leader(node, peer_id, reply)
    if role is None:
        if isinstance(node.role, Follower):
            node.role.download = None  # It may be gone there: the next fetch says which one there is.
        return
    download = role.download
    if download is None or (reply.snapshot_id, reply.position) != (download.snapshot_id, download.position):
        return
    node.effects.append(
        WriteSnapshotChunk(snapshot_id=download.snapshot_id, position=download.position, data=reply.data)
    )
    download.position += len(reply.data)
    if download.position == reply.size:
        role.download = None
        node.is_installing = True
        node.effects.append(InstallSnapshot(snapshot_id=download.snapshot_id))
    elif not reply.data:
        node.pause(peer_id, node.settings.retry_backoff_ms)


def on_snapshot_installed(node: QuorumNode, event: SnapshotInstalled) -> None:
    invariant(node.is_installing, "only what was ordered is installed", snapshot=event.snapshot_id)
    node.log.restart_at(event.snapshot_id, event.voters)
    node.maybe_advance_watermark(event.snapshot_id.end_offset)
    on_installing_over(node)


def on_installing_over(node: QuorumNode) -> None:
    """Installed or refused: the follower's patience begins anew, it could not fetch meanwhile."""
    node.is_installing = False
    if isinstance(node.role, Follower):
        node.role.fetch_deadline_ms = node.now_ms + node.settings.fetch_timeout_ms
