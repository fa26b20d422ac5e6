"""The quorum as its leader sees it: the answer to DescribeQuorum, and a status line of any node."""

from dataclasses import dataclass

from ottla.base.types import NO_NODE, LeaderEpoch, NodeId, Offset
from ottla.raft.node import QuorumNode
from ottla.raft.serving import OBSERVER_SILENCE_MS_MAX
from ottla.raft.state import Leader, Progress, RoleName
from ottla.raft.voters import ReplicaKey, Voter


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStatus:
    """Times are those of `step`; -1 where nothing is known."""

    key: ReplicaKey
    log_end_offset: Offset
    last_fetch_ms: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumStatus:
    role: RoleName
    epoch: LeaderEpoch
    leader_id: NodeId
    high_watermark: Offset
    voters: tuple[Voter, ...]
    voter_status: tuple[ReplicaStatus, ...] = ()
    """Known to the leader alone, like `observers`."""
    observers: tuple[ReplicaStatus, ...] = ()

    @property
    def is_leader_known(self) -> bool:
        return self.leader_id != NO_NODE


def describe(node: QuorumNode) -> QuorumStatus:
    voter_status: tuple[ReplicaStatus, ...] = ()
    observers: tuple[ReplicaStatus, ...] = ()
    if isinstance(node.role, Leader):
        leader = node.role
        voter_status = tuple(_status(node, leader, voter.key) for voter in node.voters)
        observers = tuple(
            _status(node, leader, key)
            for key, progress in sorted(leader.progress.items())
            if not node.voters.holds(key) and node.now_ms - progress.last_fetch_ms <= OBSERVER_SILENCE_MS_MAX
        )
    return QuorumStatus(
        role=node.role.name,
        epoch=node.epoch,
        leader_id=node.leader_id,
        high_watermark=node.high_watermark,
        voters=node.voters.voters,
        voter_status=voter_status,
        observers=observers,
    )


def _status(node: QuorumNode, leader: Leader, key: ReplicaKey) -> ReplicaStatus:
    if key == node.me:
        progress = Progress(
            end_offset=node.log.log_end_offset, last_fetch_ms=node.now_ms, last_caught_up_ms=node.now_ms
        )
    else:
        progress = leader.progress.get(key) or Progress(last_fetch_ms=-1)
    return ReplicaStatus(
        key=key,
        log_end_offset=progress.end_offset,
        last_fetch_ms=progress.last_fetch_ms,
        last_caught_up_ms=progress.last_caught_up_ms,
    )
