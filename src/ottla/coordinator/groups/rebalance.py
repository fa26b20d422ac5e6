"""How a classic group gets from one generation to the next.

    Empty ──join──▶ PreparingRebalance ──all joined, or time is over──▶ CompletingRebalance ──leader syncs──▶ Stable
                        ▲                                                      │                             │
                        └──────────── somebody joins, leaves or vanishes ──────┴─────────────────────────────┘

A group that waits has a deadline in every state, so that it gets on whoever vanishes: joins end with the rebalance
time-out, syncs too, and members with their session. Generations grow when the joins end; one is recorded, and with it
handed out, once its leader has assigned it.
"""

import logging
from collections.abc import Sequence
from typing import Final, TypeAlias

from ottla.base.clock import Clock
from ottla.base.errors import ErrorCode, invariant
from ottla.coordinator.groups.deadlines import Deadlines
from ottla.coordinator.groups.group import Group, GroupState, RebalanceTimer
from ottla.coordinator.groups.group_records import metadata_record
from ottla.coordinator.groups.member import JoinFuture, Member, PendingMember
from ottla.coordinator.groups.settings import GroupSettings
from ottla.coordinator.records import CoordinatorRecord
from ottla.wire import api

logger = logging.getLogger(__name__)

Records: TypeAlias = Sequence[CoordinatorRecord]

# A client that joins without an id cannot beat while it waits. One that went away and comes back joins as another, so
# what it left behind must end some time (KIP-394).
NEW_MEMBER_JOIN_MS: Final = 300_000
EMPTY_RETRY_MS: Final = 1_000  # When a full disk refused to record that a group is empty.


class Rebalances:
    def __init__(self, settings: GroupSettings, clock: Clock, deadlines: Deadlines) -> None:
        self._settings = settings
        self._clock = clock
        self._deadlines = deadlines

    # -- members -----------------------------------------------------------------------------------------------------

    def add(self, member: Member, join: JoinFuture, reason: str) -> Records:
        group = member.group
        group.add(member)
        member.is_new = True
        self.wait_for_join(member, join)
        self._deadlines.set(member, NEW_MEMBER_JOIN_MS)
        if group.is_initial_rebalance and group.timer is not None:
            group.timer.is_extended = True
        return self.begin_or_go_on(group, reason)

    def wait_for_join(self, member: Member, join: JoinFuture) -> None:
        self.answer_join(member, api.JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        member.join = join
        member.group.awaiting_join_count += 1

    def answer_join(self, member: Member, response: api.JoinGroupResponse) -> None:
        join, member.join = member.join, None
        if join is not None:
            member.group.awaiting_join_count -= 1
            response.member_id = response.member_id or member.member_id
            if not join.done():
                join.set_result(response)

    def remove(self, member: Member, code: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID) -> None:
        """Takes it out, whatever it waits for. The caller sees to the group (`begin_or_go_on`)."""
        self.answer_join(member, api.JoinGroupResponse(error_code=code))
        member.answer_sync(api.SyncGroupResponse(error_code=code))
        member.group.remove(member)
        self._deadlines.clear(member)

    def add_pending(self, group: Group, member_id: str, session_timeout_ms: int) -> None:
        pending = PendingMember(group, member_id)
        if group.pending_members is None:
            group.pending_members = {}
        group.pending_members[member_id] = pending
        self._deadlines.set(pending, session_timeout_ms)

    def remove_pending(self, group: Group, member_id: str) -> bool:
        if group.pending_members is None or member_id not in group.pending_members:
            return False
        self._deadlines.clear(group.pending_members.pop(member_id))
        group.pending_members = group.pending_members or None
        return True

    def keep_alive(self, member: Member) -> None:
        self._deadlines.set(member, member.session_timeout_ms)

    # -- joining -----------------------------------------------------------------------------------------------------

    def begin_or_go_on(self, group: Group, reason: str) -> Records:
        """Somebody came, changed or went."""
        if group.state is GroupState.PREPARING_REBALANCE:
            return self.go_on(group)
        return self.begin(group, reason)

    def begin(self, group: Group, reason: str) -> Records:
        logger.info("rebalancing group %s after generation %d: %s", group.group_id, group.generation, reason)
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._refuse_syncs(group)
        group.pending_syncs = None
        group.is_initial_rebalance = group.state is GroupState.EMPTY
        self._enter(group, GroupState.PREPARING_REBALANCE)
        if group.is_initial_rebalance:
            delay_ms = self._settings.initial_rebalance_delay_ms
            timer = self._set_timer(group, delay_ms)
            timer.extension_left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            return ()
        if group.is_all_joined:
            return self.complete_join(group)
        self._set_timer(group, group.rebalance_timeout_ms)
        return ()

    def _refuse_syncs(self, group: Group) -> None:
        for member in group.members.values():
            member.assignment = b""
            if member.sync is not None:
                member.answer_sync(api.SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
                self.keep_alive(member)

    def go_on(self, group: Group) -> Records:
        """Ends the joins if nobody is missing. A new group waits for its delay to pass."""
        if (
            group.state is GroupState.PREPARING_REBALANCE
            and group.is_all_joined
            and not (group.is_initial_rebalance and group.members)
        ):
            return self.complete_join(group)
        return ()

    def end_phase(self, group: Group) -> Records:
        """The time of a phase is over."""
        timer = group.timer
        if timer is None:
            return ()
        if group.state is GroupState.PREPARING_REBALANCE:
            if group.is_initial_rebalance and timer.is_extended and timer.extension_left_ms > 0:
                timer.is_extended = False
                delay_ms = min(self._settings.initial_rebalance_delay_ms, timer.extension_left_ms)
                timer.extension_left_ms -= delay_ms
                self._deadlines.set(timer, delay_ms)
                return ()
            return self.complete_join(group)
        if not group.pending_syncs:
            self._drop_timer(group)
            return ()
        for member_id in sorted(group.pending_syncs):
            self.remove(group.members[member_id])
        return self.begin(group, "members did not sync in time")

    def complete_join(self, group: Group) -> Records:
        """Whoever did not join is out, except static members: they may restart. The rest is the next generation."""
        for member in list(group.members.values()):
            if member.join is None and member.instance_id is None:
                self.remove(member)
        if not group.members:
            self._set_timer(group, EMPTY_RETRY_MS)
            return (metadata_record(group, generation=group.generation + 1, assignments={}, now_ms=self._now_ms()),)
        if not self._elect_leader(group):
            self._set_timer(group, group.rebalance_timeout_ms)  # Until sessions have ended of those that are away.
            return ()
        group.generation += 1
        group.protocol_name = group.elect_protocol()
        self._enter(group, GroupState.COMPLETING_REBALANCE)
        group.is_initial_rebalance = False
        group.pending_syncs = set(group.members)
        self._set_timer(group, group.rebalance_timeout_ms)
        for member in group.members.values():
            self.answer_join(member, self.joined(group, member))
            member.is_new = False
            self.keep_alive(member)
        return ()

    def joined(self, group: Group, member: Member) -> api.JoinGroupResponse:
        """The generation as its members learn of it: the leader gets everybody's metadata."""
        is_leader = member.member_id == group.leader_id
        return api.JoinGroupResponse(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=group.leader_id or "",
            member_id=member.member_id,
            members=self.described_to_leader(group) if is_leader else [],
        )

    @staticmethod
    def described_to_leader(group: Group) -> list[api.JoinGroupResponse.JoinGroupResponseMember]:
        return [
            api.JoinGroupResponse.JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata_for(group.protocol_name),
            )
            for member in group.members.values()
        ]

    @staticmethod
    def _elect_leader(group: Group) -> bool:
        """The old one if it still listens, else the first that does. Nobody who does not would ever assign."""
        joined = [member for member in group.members.values() if member.join is not None]
        listening = [member for member in joined if member.is_listening] or joined
        if not listening:
            return False
        if not any(member.member_id == group.leader_id for member in listening):
            group.leader_id = listening[0].member_id
        return True

    # -- assigning ---------------------------------------------------------------------------------------------------

    def synced(self, member: Member) -> None:
        """It asked for its assignment: it is there."""
        group = member.group
        if group.pending_syncs is not None:
            group.pending_syncs.discard(member.member_id)
            if not group.pending_syncs:
                group.pending_syncs = None
                self._drop_timer(group)

    def assign(self, group: Group) -> None:
        """A generation and its assignments are recorded: whoever waits for them gets them."""
        invariant(group.state is GroupState.STABLE, "what is recorded is stable", group=group.group_id)
        count = len(group.members)
        logger.info("group %s is stable: generation %d, %d members", group.group_id, group.generation, count)
        for member in group.members.values():
            if member.sync is not None:
                self.synced(member)
                member.answer_sync(self.assigned(group, member))
                self.keep_alive(member)

    @staticmethod
    def assigned(group: Group, member: Member) -> api.SyncGroupResponse:
        return api.SyncGroupResponse(
            protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
        )

    # -- phases ------------------------------------------------------------------------------------------------------

    def _enter(self, group: Group, state: GroupState) -> None:
        group.state = state
        group.state_timestamp_ms = self._now_ms()

    def _set_timer(self, group: Group, milliseconds: int) -> RebalanceTimer:
        if group.timer is None:
            group.timer = RebalanceTimer(group)
        self._deadlines.set(group.timer, milliseconds)
        return group.timer

    def _drop_timer(self, group: Group) -> None:
        if group.timer is not None:
            self._deadlines.clear(group.timer)
            group.timer = None

    def rest(self, group: Group) -> None:
        """Nothing is awaited any more."""
        self._drop_timer(group)
        group.pending_syncs = None
        group.is_initial_rebalance = False

    def _now_ms(self) -> int:
        return self._clock.now_ms()
