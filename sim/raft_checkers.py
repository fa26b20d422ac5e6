"""What must hold in a quorum whatever happens: looked at with every effect, not only at the end.

- At most one leader per epoch, and one run of one process at that.
- A node votes once per epoch, and what it told of its epoch it still knows after a crash.
- What is committed is on the disks of a majority, is never truncated, never changes, and is in every later leader's log.
- Logs agree below the high watermark, and watermarks only grow.
- A leader has one change of voters under way at a time, and each changes one voter.
"""

from collections import Counter
from collections.abc import Mapping

from ottla.base.types import LeaderEpoch, NodeId, Offset
from ottla.raft.effects import (
    Answer,
    AnswerFetch,
    AppendBatches,
    Committed,
    Effect,
    RoleChanged,
    Send,
    TruncateLog,
)
from ottla.raft.log_view import LogBatch
from ottla.raft.messages import BeginEpoch, EndEpoch, Fetch, FetchSnapshot, Reply, Vote, VoteReply
from ottla.raft.state import RoleName
from ottla.raft.voters import ReplicaKey, VoterSet
from sim.raft_disk import RaftDisk
from sim.raft_peer import RaftPeer


class RaftCheckers:
    def __init__(self, disks: Mapping[NodeId, RaftDisk], hits: Counter[str]) -> None:
        self._disks = disks
        self._hits = hits
        self.committed: dict[Offset, LogBatch] = {}
        self.committed_end: Offset = 0
        self._last_voters: VoterSet | None = None
        self._leaders: dict[LeaderEpoch, RaftPeer] = {}
        self._votes: dict[tuple[ReplicaKey, LeaderEpoch], object] = {}
        self._told_epochs: dict[ReplicaKey, LeaderEpoch] = {}
        self._watermarks: dict[RaftPeer, Offset] = {}

    def on_started(self, peer: RaftPeer) -> None:
        told = self._told_epochs.get(peer.key, 0)
        epoch = peer.machine.node.epoch
        assert epoch >= told, f"node {peer.key.node_id} forgot epoch {told} and starts in {epoch}"

    def before(self, peer: RaftPeer, effect: Effect) -> None:
        """The disk is as it was before `effect`."""
        match effect:
            case Send(request=Vote() | BeginEpoch() | EndEpoch() | Fetch() | FetchSnapshot() as request):
                self._on_told(peer, request.epoch)
            case Answer(reply=reply):
                self._on_told(peer, reply.epoch)
                self._check_vote(peer, effect.ticket, reply)
            case AnswerFetch():
                self._on_told(peer, effect.reply.epoch)
            case RoleChanged(role=RoleName.LEADER):
                self._check_leader(peer, effect.epoch)
            case TruncateLog():
                self._check_truncation(peer, effect.to_offset)
            case AppendBatches():
                self._check_one_change(peer, effect.batches)
            case Committed():
                self._check_commit(peer, effect.high_watermark)

    def _on_told(self, peer: RaftPeer, epoch: LeaderEpoch) -> None:
        self._told_epochs[peer.key] = max(epoch, self._told_epochs.get(peer.key, 0))

    def _check_one_change(self, peer: RaftPeer, batches: tuple[LogBatch, ...]) -> None:
        """A leader has one change of voters under way at a time; the first set of all changes nothing."""
        changed = [batch for batch in batches if isinstance(batch.control, VoterSet)]
        if not changed or peer.role is not RoleName.LEADER:
            return
        for batch in peer.disk.written.batches:
            if isinstance(batch.control, VoterSet):
                known = self.committed.get(batch.base_offset)
                assert known == batch, f"voters change to {changed} before {batch} is committed"
        self._hits["voter set appended"] += 1

    def _check_vote(self, peer: RaftPeer, ticket: object, reply: Reply) -> None:
        if not isinstance(reply, VoteReply) or not reply.is_granted or not isinstance(ticket, tuple):
            return
        candidate_id, is_pre_vote = ticket[0], ticket[-1]
        if is_pre_vote:
            return
        first = self._votes.setdefault((peer.key, reply.epoch), candidate_id)
        assert first == candidate_id, f"node {peer.key.node_id} voted for {first} and {candidate_id} in {reply.epoch}"

    def _check_leader(self, peer: RaftPeer, epoch: LeaderEpoch) -> None:
        other = self._leaders.setdefault(epoch, peer)
        assert other is peer, f"epoch {epoch} is led by {other.key.node_id} and by {peer.key.node_id}"
        for offset, batch in self.committed.items():
            if offset >= peer.disk.written.start_offset:
                found = peer.disk.written.find(offset)
                assert found == batch, f"leader {peer.key.node_id} of epoch {epoch} lacks {batch}, has {found}"

    def _check_truncation(self, peer: RaftPeer, to_offset: Offset) -> None:
        for batch in peer.disk.written.batches:
            if batch.end_offset > to_offset:
                assert self.committed.get(batch.base_offset) != batch, f"committed and truncated: {batch}"
                self._hits["batches truncated"] += 1
                if isinstance(batch.control, VoterSet):
                    self._hits["voter set rolled back"] += 1

    def _check_commit(self, peer: RaftPeer, high_watermark: Offset) -> None:
        assert high_watermark > self._watermarks.get(peer, -1), "the high watermark goes back"
        self._watermarks[peer] = high_watermark
        content = peer.disk.written
        is_leader = peer.role is RoleName.LEADER
        for batch in content.batches_from(peer.applied_end):
            if batch.end_offset > high_watermark:
                assert batch.base_offset >= high_watermark, "half a batch is committed"
                break
            self._check_batch(peer, batch, is_leader=is_leader)
        self._hits["watermark advanced by a leader" if is_leader else "watermark learnt"] += 1

    def _check_batch(self, peer: RaftPeer, batch: LogBatch, *, is_leader: bool) -> None:
        known = self.committed.get(batch.base_offset)
        if known is not None:
            assert known == batch, f"committed {known}, and now {batch} at node {peer.key.node_id}"
            return
        assert is_leader, f"node {peer.key.node_id} learnt a commit that no leader made: {batch}"
        assert batch.base_offset == self.committed_end, f"commits skip from {self.committed_end} to {batch}"
        self._check_majority(peer, batch)
        self._check_successors(batch)
        self.committed[batch.base_offset] = batch
        self.committed_end = batch.end_offset
        if isinstance(batch.control, VoterSet):
            self._check_voters(batch.control)

    def _check_majority(self, peer: RaftPeer, batch: LogBatch) -> None:
        voters = peer.disk.written.voters
        disks = self._disks_of(voters)
        holders = [disk.key.node_id for disk in disks if disk.durable.holds(batch)]
        lost_count = len(voters) - len(disks)  # They may have acknowledged it before.
        assert len(holders) + lost_count >= voters.majority_count, (
            f"committed on {holders} of {voters.node_ids} alone: {batch}"
        )

    def _check_successors(self, batch: LogBatch) -> None:
        """If all the power went now, whoever could be elected afterwards would have what is committed."""
        for disk in self._disks.values():
            voters = disk.durable.voters
            granting = [other for other in self._disks_of(voters) if other.durable.end <= disk.durable.end]
            can_win = voters.holds(disk.key) and len(granting) >= voters.majority_count
            assert not can_win or disk.durable.holds(batch), f"node {disk.key.node_id} could win without {batch}"

    def _disks_of(self, voters: VoterSet) -> list[RaftDisk]:
        """Without those that a voter has lost: what is there now is another voter's."""
        disks = (self._disks[node_id] for node_id in voters.node_ids)
        return [disk for disk in disks if voters.holds(disk.key)]

    def _check_voters(self, voters: VoterSet) -> None:
        old, self._last_voters = self._last_voters, voters
        if old is not None:
            changed = {voter.key for voter in old} ^ {voter.key for voter in voters}
            assert len(changed) <= 1, f"voters go from {old.node_ids} to {voters.node_ids} in one step"
            self._hits["voter set committed"] += bool(changed)
