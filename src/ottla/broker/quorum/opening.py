"""From the files of a directory to the state in which the quorum's machine starts.

The image is the newest snapshot; what the log holds behind it follows once it is known to be committed. The voters are
in the log or in the snapshot. Where neither names any, the directory is either new, or of a node that was its own whole
quorum before voters were written down, or of one that joined a cluster and crashed before it had fetched who votes there:
the last must never found a quorum of its own, or the cluster would have two.
"""

from dataclasses import dataclass
from posixpath import join
from typing import Final

from ottla.base.disk import Disk
from ottla.base.errors import invariant
from ottla.base.types import NodeId
from ottla.broker.quorum.log_reading import log_batches
from ottla.log.partition_log import PartitionLog
from ottla.metadata.image import MetadataImage
from ottla.metadata.snapshot import Snapshot, SnapshotFiles
from ottla.raft.control_records import voters_of
from ottla.raft.log_view import EpochStart, LogView
from ottla.raft.messages import SnapshotId
from ottla.raft.quorum_state import QuorumState, decode_quorum_state
from ottla.raft.voters import Voter, VoterHistory, VoterSet

STATE_FILE_NAME: Final = "quorum-state"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedQuorum:
    state: QuorumState
    view: LogView
    image: MetadataImage


def open_quorum(disk: Disk, log: PartitionLog, me: Voter, *, may_found: bool) -> OpenedQuorum:
    """Blocking. `may_found`: this node knows of no cluster that it could belong to; then it is one by itself."""
    files = SnapshotFiles(disk, log.directory)
    files.remove_pieces()
    snapshot = files.load_newest()
    state = read_state(disk, log.directory)
    if snapshot is not None and log.log_end_offset < snapshot.id.end_offset:
        # The snapshot holds all that the log has and more: the log begins anew behind it.
        log.truncate_fully_at(snapshot.id.end_offset)
    is_new = state is None and snapshot is None and log.log_end_offset == 0
    state = state or QuorumState()
    own = VoterSet((me,)) if is_own_quorum(state, me.key.node_id, is_new=is_new, may_found=may_found) else VoterSet()
    view = _view(log, snapshot, own)
    return OpenedQuorum(state=state, view=view, image=MetadataImage() if snapshot is None else snapshot.image)


def read_state(disk: Disk, directory: str) -> QuorumState | None:
    path = join(directory, STATE_FILE_NAME)
    return decode_quorum_state(disk.read(path)) if disk.exists(path) else None


def is_own_quorum(state: QuorumState, node_id: NodeId, *, is_new: bool, may_found: bool) -> bool:
    """Whether a directory that names no voters is of a node that is its own whole quorum.

    Only a voter votes for itself or leads: whoever has done so in this directory was one, by its own knowledge.
    """
    if is_new:
        return may_found
    has_voted = state.voted is not None and state.voted.node_id == node_id
    return state.leader_id == node_id or has_voted


def _view(log: PartitionLog, snapshot: Snapshot | None, own: VoterSet) -> LogView:
    view = LogView(own)
    if snapshot is not None:
        voters = voters_of(snapshot.controls)
        view.restart_at(SnapshotId(*snapshot.id), voters or own)
        if voters is None:
            view.voters = VoterHistory(own)  # Older than the first record that names voters.
    invariant(log.log_start_offset <= view.log_end_offset, "the log goes on where the snapshot ends",
              log_start=log.log_start_offset, snapshot_end=view.log_end_offset)  # fmt: skip
    view.reach_back(log.log_start_offset, [EpochStart(*entry) for entry in log.epochs.entries()])
    for batch in log_batches(log, view.log_end_offset):
        view.append(batch)
    view.on_flushed(view.log_end_offset, view.truncation_count)
    return view
