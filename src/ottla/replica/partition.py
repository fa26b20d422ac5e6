"""One partition on this broker and its role: leader, follower, or neither while nobody leads it.

The role and the ISR are what the cluster image says, and `follow_image` is the only place where they change. A new leader
starts an epoch at its log end and never truncates. Losing leadership fails whoever waits for a commit: at their offsets
there may soon be something else. An ISR that we want is a proposal, one at a time, until the image has another partition
epoch or the controller says that it never looked at it (KIP-497).

Called by broker/handlers/produce, fetch, offsets; by the fetcher for followers, by IsrChanges for proposals.
"""

import asyncio
from typing import Final, NamedTuple

from ottla.base.errors import ApiError, ErrorCode, invariant
from ottla.base.types import LeaderEpoch, NodeId, Offset, TopicId
from ottla.log.partition_log import PartitionLog
from ottla.metadata.controller.partition_changes import RecoveryState
from ottla.metadata.image_parts import PartitionImage
from ottla.replica.cluster_view import ClusterView
from ottla.replica.leadership import Follower, Leadership
from ottla.replica.maintained_partition import MaintainedPartition
from ottla.replica.readable_partition import Watcher
from ottla.replica.storage import Storage
from ottla.replica.throttle import Throttle

__all__ = ["IsrProposal", "Partition", "Watcher"]

DELETED_LOOK_SECONDS: Final = 0.02

# The controller has not looked at the proposal, or not let it pass: nothing of it can be in force.
_NOT_IN_FORCE = (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA)


class IsrProposal(NamedTuple):
    """An ISR that we want, with the epochs under which each broker fetched and the state it is meant to replace."""

    isr: tuple[tuple[NodeId, int], ...]
    leader_epoch: LeaderEpoch
    partition_epoch: int


class Partition(MaintainedPartition):
    __slots__ = (
        "_cluster",
        "is_receiving_throttled",
        "is_sending_throttled",
        "isr",
        "partition_epoch",
        "proposal",
        "replicas",
    )

    def __init__(self, log: PartitionLog, topic_id: TopicId, storage: Storage, cluster: ClusterView) -> None:
        """Without a role, which `follow_image` gives it."""
        super().__init__(log, topic_id, storage)
        self._cluster = cluster
        self.replicas: tuple[NodeId, ...] = ()
        self.isr: tuple[NodeId, ...] = ()
        self.partition_epoch = -1
        self.proposal: IsrProposal | None = None
        self.is_sending_throttled = self.is_receiving_throttled = False

    # -- the role ----------------------------------------------------------------------------------------------------

    def follow_image(self, state: PartitionImage, *, min_isr: int) -> bool:
        """Takes on what the metadata says; returns whether the leader or its epoch is another one.

        `min_isr`: the effective one (metadata/min_isr.py). `wait_untruncated` comes first.
        """
        invariant(self._truncation is None, "roles change when no log is being cut", partition=self.topic_partition)
        is_new_epoch = (state.leader, state.leader_epoch) != (self.leader_id, self.leader_epoch)
        self.leader_id, self.leader_epoch = state.leader, state.leader_epoch
        self.replicas, self.isr, self.partition_epoch = state.replicas, state.isr, state.partition_epoch
        if self.proposal is not None and (is_new_epoch or state.partition_epoch > self.proposal.partition_epoch):
            self.proposal = None
        if state.leader != self._cluster.node_id:
            if self.is_leading:
                self._resign()
        else:
            self._lead(state, min_isr, is_new_epoch=is_new_epoch)
        if is_new_epoch:
            self.tell_watchers()
        return is_new_epoch

    def _lead(self, state: PartitionImage, min_isr: int, *, is_new_epoch: bool) -> None:
        if is_new_epoch:
            self.log.epochs.assign(state.leader_epoch, self.log.log_end_offset)
        self.is_leading = True
        now = self._clock.monotonic()
        if len(state.replicas) == 1:
            self.leadership = None
        elif self.leadership is not None and not is_new_epoch:
            self.leadership.on_image(state, min_isr, self._proposed(), now)
        else:
            self.leadership = Leadership(
                node_id=self._cluster.node_id,
                state=state,
                min_isr=min_isr,
                epoch_start_offset=self.log.log_end_offset,
                lag_seconds=self._cluster.lag_seconds,
                is_eligible=self._cluster.is_eligible,
                now=now,
            )
        was_short, self.is_short_of_replicas = self.is_short_of_replicas, len(state.isr) < min_isr
        if self.is_short_of_replicas and not was_short:
            reason = f"{self.topic_partition} has lost in-sync replicas: {len(state.isr)} are left of {min_isr}"
            self._fail_commit_waiters(ApiError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, reason))
        self._move_watermark()
        if state.leader_recovery_state == RecoveryState.RECOVERING and self.proposal is None:
            self._propose(state.isr)
        self.maybe_expand_isr()

    def _resign(self) -> None:
        # An epoch in which we wrote nothing would contradict what we copy now.
        self.log.epochs.truncate_end(self.log.log_end_offset)
        self.is_leading = self.is_short_of_replicas = False
        self.leadership = None
        if self._guards is not None:
            self._guards.close()
        self._fail_commit_waiters(self._not_leading())

    def mark_deleted(self) -> None:
        """Of the cluster, or of this broker alone."""
        self.deleted = True
        self.is_leading = self.is_short_of_replicas = False
        self.leadership = self.proposal = None
        if self._flush_timer is not None:
            self._flush_timer.cancel()
        self._fail_commit_waiters(ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.topic_partition} was deleted"))
        self.tell_watchers()

    @property
    def is_following(self) -> bool:
        return not self.is_leading and self.leader_id >= 0 and not self.deleted

    # -- as a leader -------------------------------------------------------------------------------------------------

    def on_follower_fetch(
        self, replica_id: NodeId, broker_epoch: int, end_offset: Offset, log_start_offset: Offset
    ) -> None:
        """A follower has all before `end_offset`, durably, and nothing before `log_start_offset`."""
        leadership = self.leadership
        follower = None if leadership is None else leadership.followers.get(replica_id)
        if leadership is None or follower is None:
            reason = f"{self.topic_partition} has no follower {replica_id}"
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, reason)
        now = self._clock.monotonic()
        if not follower.on_fetch(broker_epoch, end_offset, log_start_offset, self.log.log_end_offset, now):
            return
        self._move_watermark()
        if replica_id not in self.isr:
            self.maybe_expand_isr()

    def throttle_of(self, replica_id: NodeId) -> Throttle | None:
        """What holds a follower back that is not in sync; none as a rule."""
        return self._cluster.sending if self.is_sending_throttled and replica_id not in self.isr else None

    def follower(self, replica_id: NodeId) -> Follower | None:
        """How far a replica has come, where we lead."""
        return None if self.leadership is None else self.leadership.followers.get(replica_id)

    @property
    def low_watermark(self) -> Offset:
        """What lies below is deleted on every replica whose broker is alive."""
        followers = {} if self.leadership is None else self.leadership.followers
        starts = [one.log_start_offset for replica, one in followers.items() if self._cluster.is_alive(replica)]
        return min((self.log.log_start_offset, *starts))

    async def wait_deleted_before(self, offset: Offset, timeout_seconds: float) -> Offset:
        """Until all replicas have followed a DeleteRecords. Looks again and again: a replica may come, go, or lead."""
        deadline = self._clock.monotonic() + timeout_seconds
        while True:
            self._require_leading()
            if (low_watermark := self.low_watermark) >= offset:
                return low_watermark
            if self._clock.monotonic() >= deadline:
                reason = f"{self.topic_partition}: not every replica has deleted its records before {offset} in time"
                raise ApiError(ErrorCode.REQUEST_TIMED_OUT, reason)
            await asyncio.sleep(DELETED_LOOK_SECONDS)

    def maybe_expand_isr(self) -> bool:
        """Proposes an ISR with those who have caught up. Asked whenever that may have become possible: an idle partition
        is in no fetch."""
        if self.leadership is None or self.proposal is not None:
            return False
        entering = self.leadership.entering(self.high_watermark, self.log.log_end_offset)
        if entering:
            self._propose((*self.isr, *entering))
        return bool(entering)

    def maybe_shrink_isr(self) -> bool:
        """Proposes an ISR without those who lag. Called every half of `replica.lag.time.max.ms`."""
        if self.leadership is None or self.proposal is not None:
            return False
        late = self.leadership.lagging(self.log.log_end_offset, self._clock.monotonic())
        if late:
            self._propose(tuple(replica for replica in self.isr if replica not in late))
        return bool(late)

    def _propose(self, isr: tuple[NodeId, ...]) -> None:
        members = tuple((replica, self._broker_epoch_of(replica)) for replica in isr)
        self.proposal = IsrProposal(members, self.leader_epoch, self.partition_epoch)
        if self.leadership is not None:
            self.leadership.count(isr)
        self._cluster.propose(self)

    def _broker_epoch_of(self, replica: NodeId) -> int:
        if replica == self._cluster.node_id or self.leadership is None:
            return self._cluster.broker_epoch
        return self.leadership.broker_epoch_of(replica)

    def _proposed(self) -> tuple[NodeId, ...]:
        return () if self.proposal is None else tuple(replica for replica, _ in self.proposal.isr)

    def on_proposal_answered(self, proposal: IsrProposal, code: ErrorCode, partition_epoch: int) -> None:
        """`partition_epoch`: the one that the controller has now. Whatever else it says, the image will tell: until
        then the watermark waits for the proposed ISR too."""
        if self.proposal is not proposal:
            return
        is_settled = code is ErrorCode.NONE and partition_epoch <= self.partition_epoch
        if is_settled or code in _NOT_IN_FORCE:
            self.proposal = None
            if self.leadership is not None:
                self.leadership.put_off(replica for replica, _ in proposal.isr if replica not in self.isr)
                self.leadership.count(())
                self._move_watermark()

    # -- as a follower -----------------------------------------------------------------------------------------------

    @property
    def own_throttle(self) -> Throttle | None:
        """What holds us back while we are not in sync; none as a rule."""
        is_throttled = self.is_receiving_throttled and self._cluster.node_id not in self.isr
        return self._cluster.receiving if is_throttled else None

    def follow_offsets(self, high_watermark: Offset, log_start_offset: Offset) -> None:
        """The leader's watermark and log start, as far as our log has come."""
        log = self.log
        committed = min(high_watermark, log.log_end_offset)
        if committed > self.high_watermark:
            self._advance_to(committed, 0)
        if log_start_offset > log.log_start_offset:
            log.delete_records_before(min(log_start_offset, log.log_end_offset))
            self.tell_watchers()
