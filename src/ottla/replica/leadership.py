"""What a leader knows of those who follow it: how far each has come, and so how far the high watermark may go.

A follower's fetch says what it has: everything before its offset, durably. The watermark is the least of those ends, and
of the leader's own, over the maximal ISR: the ISR that the controller has committed and the one we have proposed, for
either may be in force already (KIP-497). It stands still while the ISR is smaller than the effective `min.insync.replicas`
(KIP-966): who left the ISR meanwhile has every committed record and may be elected.

A follower enters the ISR once it has all that is committed and has come past the start of our epoch, so that its log does
not diverge from ours. It leaves when for `replica.lag.time.max.ms` it was never at our end.
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from ottla.base.types import NO_OFFSET, NodeId, Offset
from ottla.metadata.image_parts import PartitionImage

ANY_BROKER_EPOCH: Final = -1  # Of a replica that has not fetched from this leader yet (KIP-903).
_NEVER: Final = float("-inf")

IsEligible: TypeAlias = Callable[[NodeId, int], bool]


class Follower:
    """One replica's progress, by what its fetches say."""

    __slots__ = ("broker_epoch", "caught_up_at", "end_offset", "leader_end_then", "log_start_offset", "seen_at")

    def __init__(self, caught_up_at: float) -> None:
        self.broker_epoch = ANY_BROKER_EPOCH
        self.end_offset: Offset = NO_OFFSET
        self.log_start_offset: Offset = NO_OFFSET
        self.caught_up_at = caught_up_at
        """When it last had all that we had."""
        self.seen_at = caught_up_at
        self.leader_end_then: Offset = NO_OFFSET
        """Our end at `seen_at`."""

    def on_fetch(
        self, broker_epoch: int, end_offset: Offset, log_start_offset: Offset, leader_end: Offset, now: float
    ) -> bool:
        """False for a fetch that a former life of the broker left behind (KIP-903)."""
        if broker_epoch < self.broker_epoch:
            return False
        if end_offset >= leader_end:
            self.caught_up_at = now
        elif end_offset >= self.leader_end_then:  # It has by now what we had when it last asked.
            self.caught_up_at = max(self.caught_up_at, self.seen_at)
        self.broker_epoch = broker_epoch
        self.end_offset = end_offset
        self.log_start_offset = log_start_offset
        self.leader_end_then, self.seen_at = leader_end, now
        return True

    def is_caught_up(self, leader_end: Offset, now: float, lag_seconds: float) -> bool:
        return self.end_offset >= leader_end or now - self.caught_up_at <= lag_seconds


class Leadership:
    """From becoming leader in an epoch to its end; only of partitions with several replicas."""

    __slots__ = (
        "_counted",
        "_is_eligible",
        "_lag_seconds",
        "_node_id",
        "_outside",
        "epoch_start_offset",
        "followers",
        "isr",
        "min_isr",
    )

    def __init__(
        self,
        *,
        node_id: NodeId,
        state: PartitionImage,
        min_isr: int,
        epoch_start_offset: Offset,
        lag_seconds: float,
        is_eligible: IsEligible,
        now: float,
    ) -> None:
        self._node_id = node_id
        self._lag_seconds = lag_seconds
        self._is_eligible = is_eligible
        self.epoch_start_offset = epoch_start_offset
        self.followers: dict[NodeId, Follower] = {}
        self.isr: tuple[NodeId, ...] = ()
        self.min_isr = min_isr
        self._counted: tuple[Follower, ...] = ()
        self._outside: tuple[tuple[NodeId, Follower], ...] = ()
        self.on_image(state, min_isr, (), now)

    def on_image(self, state: PartitionImage, min_isr: int, proposed: Iterable[NodeId], now: float) -> None:
        """The committed ISR, and what is proposed beyond it."""
        self.put_off(replica for replica in self.isr if replica not in state.isr)
        self.isr, self.min_isr = state.isr, min_isr
        self.followers = {
            # Who is in the ISR has its time to ask; who is not has never been caught up.
            replica: self.followers.get(replica) or Follower(now if replica in state.isr else _NEVER)
            for replica in state.replicas
            if replica != self._node_id
        }
        self.count(proposed)

    def put_off(self, replicas: Iterable[NodeId]) -> None:
        """The controller does not want them in: they are waited for once they have caught up anew."""
        for replica in replicas:
            if (follower := self.followers.get(replica)) is not None:
                follower.caught_up_at = follower.seen_at = _NEVER

    def count(self, proposed: Iterable[NodeId]) -> None:
        """The watermark waits for the committed ISR and for `proposed`."""
        maximal = {*self.isr, *proposed}
        self._counted = tuple(one for replica, one in self.followers.items() if replica in maximal)
        self._outside = tuple(item for item in self.followers.items() if item[0] not in maximal)

    @property
    def is_followed_in_sync(self) -> bool:
        """Whether the watermark waits for anybody but us."""
        return bool(self._counted)

    @property
    def is_short(self) -> bool:
        return len(self.isr) < self.min_isr

    def committed_end(self, own_end: Offset, now: float) -> Offset:
        """How far the watermark may go, `own_end` being our own durable end; -1 where it stands still."""
        if self.is_short:
            return NO_OFFSET
        end = own_end
        for follower in self._counted:
            if follower.end_offset < end:
                end = follower.end_offset
        for replica, follower in self._outside:
            # Who is about to come in is waited for: the watermark would run away from it for ever otherwise.
            if follower.end_offset < end and self._is_about_to_enter(replica, follower, own_end, now):
                end = follower.end_offset
        return end

    def _is_about_to_enter(self, replica: NodeId, follower: Follower, leader_end: Offset, now: float) -> bool:
        return (
            follower.end_offset >= self.epoch_start_offset
            and follower.is_caught_up(leader_end, now, self._lag_seconds)
            and self._is_eligible(replica, follower.broker_epoch)
        )

    def entering(self, high_watermark: Offset, leader_end: Offset) -> list[NodeId]:
        """Those outside the ISR who have what it takes to be in it: they were heard since they left, or lack nothing."""
        return [
            replica
            for replica, follower in self._outside
            if follower.end_offset >= max(high_watermark, self.epoch_start_offset)
            # Else who left for its silence would be taken back at once where the watermark stands still, and so on.
            and (follower.seen_at != _NEVER or follower.end_offset >= leader_end)
            and self._is_eligible(replica, follower.broker_epoch)
        ]

    def lagging(self, leader_end: Offset, now: float) -> list[NodeId]:
        """Those of the ISR who have not caught up for too long. Asked every half of that time."""
        late = []
        for replica in self.isr:
            follower = self.followers.get(replica)
            if follower is None:  # Ourselves.
                continue
            if follower.end_offset >= leader_end:
                follower.caught_up_at = now  # An idle partition is not in every fetch: being at the end is enough.
            elif not follower.is_caught_up(leader_end, now, self._lag_seconds):
                late.append(replica)
        return late

    def broker_epoch_of(self, replica: NodeId) -> int:
        follower = self.followers.get(replica)
        return ANY_BROKER_EPOCH if follower is None else follower.broker_epoch
