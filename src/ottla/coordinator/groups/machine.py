"""The groups of one partition of `__consumer_offsets`: who belongs to them and what they have committed.

Requests are decided here; what a rebalance does is in rebalance.py, what state there is in group.py. Deadlines that come
due are decided like requests, through `submit`.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from ottla.base.clock import Clock
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import Offset, TimestampMs
from ottla.coordinator.groups.commit import Commits, KnownTopics, refusals
from ottla.coordinator.groups.deadlines import Deadlines, Timed
from ottla.coordinator.groups.forgetting import Forgetting
from ottla.coordinator.groups.group import UNKNOWN_MEMBER, Group, GroupState, RebalanceTimer
from ottla.coordinator.groups.group_records import committed_offset, recorded_member
from ottla.coordinator.groups.join import Joins
from ottla.coordinator.groups.member import Client, JoinFuture, Member, PendingMember, SyncFuture
from ottla.coordinator.groups.membership import Membership
from ottla.coordinator.groups.pending_offsets import PendingOffsets
from ottla.coordinator.groups.rebalance import Rebalances
from ottla.coordinator.groups.settings import GroupSettings
from ottla.coordinator.machine import Decision, ProducerIdentity, Submit
from ottla.coordinator.records import CommittedOffset, CoordinatorRecord
from ottla.wire import api
from ottla.wire.hot_commits import CommitCall, TopicCommitted

EXPIRY_SLICE_MS: Final = 100  # Between the slices of one look for expired offsets.


class GroupMachine:
    def __init__(
        self, *, clock: Clock, submit: Submit, settings: GroupSettings, new_member_id: Callable[[str], str]
    ) -> None:
        self._clock = clock
        self._submit = submit
        self._settings = settings
        self._groups: dict[str, Group] = {}
        self._deadlines = Deadlines(self._on_due)
        self._rebalances = Rebalances(settings, clock, self._deadlines)
        self._joins = Joins(settings, self._rebalances, new_member_id)
        self._membership = Membership(self._rebalances)
        self._commits = Commits(settings)
        self._pending = PendingOffsets()
        self._forgetting = Forgetting(settings, self._pending)
        self._expiry_timer: asyncio.TimerHandle | None = None
        self._is_started = False

    # -- members -----------------------------------------------------------------------------------------------------

    def decide_join(self, request: api.JoinGroupRequest, client: Client, *, version: int) -> Decision[JoinFuture]:
        settings = self._settings
        if not settings.session_timeout_min_ms <= request.session_timeout_ms <= settings.session_timeout_max_ms:
            raise ApiError(
                ErrorCode.INVALID_SESSION_TIMEOUT,
                f"a session lasts {settings.session_timeout_min_ms} to {settings.session_timeout_max_ms} ms",
            )
        group = self._groups.get(request.group_id)
        if group is None:
            if request.member_id != UNKNOWN_MEMBER:
                raise _unknown_member(request.group_id)
            group = Group(request.group_id)
        decision = self._joins.decide(group, request, client, version=version, now_ms=self._clock.now_ms())
        self._groups[group.group_id] = group
        return decision

    def decide_sync(self, request: api.SyncGroupRequest) -> Decision[SyncFuture]:
        return self._membership.decide_sync(self._member_group(request.group_id), request, self._clock.now_ms())

    def decide_heartbeat(self, request: api.HeartbeatRequest) -> Decision[None]:
        self._membership.decide_heartbeat(self._member_group(request.group_id), request)
        return Decision((), None)

    def decide_leave(
        self, group_id: str, leaving: list[api.LeaveGroupRequest.MemberIdentity]
    ) -> Decision[list[ErrorCode]]:
        group = self._groups.get(group_id)
        if group is None:
            return Decision((), [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving))
        decision = self._membership.decide_leave(group, leaving)
        self._forget_if_bare(group)
        return decision

    def _member_group(self, group_id: str) -> Group:
        group = self._groups.get(group_id)
        if group is None:
            raise _unknown_member(group_id)
        return group

    # -- offsets -----------------------------------------------------------------------------------------------------

    def decide_commit(self, call: CommitCall, known: KnownTopics, *, version: int) -> Decision[list[TopicCommitted]]:
        """`known`: the topics that there are."""
        committer, topics = call
        group = self._groups.get(committer.group_id)
        try:
            decision = self._commits.decide(group, call, known, version=version, now_ms=self._clock.now_ms())
        except ApiError as error:  # A refusal is a reply, too: told once what it was decided on is committed.
            return Decision((), refusals(topics, known, error.code))
        if group is not None and (member := group.members.get(committer.member_id)) is not None:
            self._rebalances.keep_alive(member)
        return decision

    def decide_transactional_commit(
        self, request: api.TxnOffsetCommitRequest, now_ms: TimestampMs
    ) -> Decision[api.TxnOffsetCommitResponse]:
        """Offsets that count once the producer's transaction commits. The caller has verified the transaction."""
        return self._commits.decide_in_transaction(self._groups.get(request.group_id), request, now_ms)

    def is_offset_pending(self, group: Group, topic: str, partition: int) -> bool:
        """A transaction has committed it that is not decided yet."""
        return self._pending.has(group, topic, partition)

    def decide_delete_offsets(self, group_id: str, wanted: Iterable[tuple[str, int]]) -> Decision[list[ErrorCode]]:
        return self._forgetting.decide_offsets(self._groups.get(group_id), wanted)

    def on_topic_deleted(self, topic: str) -> None:
        self._submit(lambda: Decision(self._forgetting.topic_tombstones(self._groups.values(), topic), None))

    # -- administration ----------------------------------------------------------------------------------------------

    def group(self, group_id: str) -> Group | None:
        """To be read only."""
        return self._groups.get(group_id)

    def groups(self) -> list[Group]:
        return list(self._groups.values())

    def decide_delete(self, group_id: str) -> Decision[ErrorCode]:
        return self._forgetting.decide_group(self._groups.get(group_id))

    # -- time --------------------------------------------------------------------------------------------------------

    def _on_due(self, timed: Timed) -> None:
        self._submit(lambda: self._decide_due(timed))

    def _decide_due(self, timed: Timed) -> Decision[None]:
        if not self._deadlines.is_due(timed):
            return Decision((), None)
        match timed:
            case Member():
                records = self._membership.expire(timed)
                group = timed.group
            case PendingMember():
                records = self._membership.expire_pending(timed)
                group = timed.group
            case RebalanceTimer():
                group = timed.group
                records = self._rebalances.end_phase(group) if group.timer is timed else ()
            case _:
                return Decision((), None)
        self._forget_if_bare(group)
        return Decision(records, None)

    def decide_overdue(self, group_id: str) -> Decision[None]:
        """Members whose session is over go now, for somebody who asks about the group in this very moment."""
        group = self._groups.get(group_id)
        records: list[CoordinatorRecord] = []
        for member in list(group.members.values()) if group is not None else ():
            if self._deadlines.is_over(member):
                records += self._membership.expire(member)
        return Decision(records, None)

    def _forget_if_bare(self, group: Group) -> None:
        if group.is_bare and group.state is GroupState.EMPTY:
            self._groups.pop(group.group_id, None)

    def _expire_later(self, milliseconds: int) -> None:
        loop = asyncio.get_running_loop()
        self._expiry_timer = loop.call_later(milliseconds / 1000, lambda: self._submit(self._decide_expire))

    def _decide_expire(self) -> Decision[bool]:
        decision = self._forgetting.decide_expired(self._groups.values(), self._clock.now_ms())
        self._expire_later(EXPIRY_SLICE_MS if decision.reply else self._settings.expiry_check_ms)
        return decision

    # -- replay ------------------------------------------------------------------------------------------------------

    def replay(self, record: CoordinatorRecord, *, offset: Offset, transaction: ProducerIdentity | None) -> None:
        key, value = record.key, record.value
        if isinstance(key, api.GroupMetadataKey):
            self._replay_metadata(key.group, value)
            return
        group = self._groups.get(key.group)
        if value is None:
            if group is not None:
                group.drop_offset(key.topic, key.partition)
                self._pending.drop(group, key.topic, key.partition)
                self._forget_if_bare(group)
            return
        if group is None:  # Somebody who only commits: a group without members.
            group = self._groups[key.group] = Group(key.group)
        committed = value if type(value) is CommittedOffset else committed_offset(value)
        committed.record_offset = offset
        if transaction is None:
            group.set_offset(key.topic, key.partition, committed)
        else:
            self._pending.add(transaction.producer_id, group, key.topic, key.partition, committed)

    def replay_marker(self, transaction: ProducerIdentity, *, is_commit: bool) -> None:
        for group in self._pending.end(transaction.producer_id, self._groups, is_commit=is_commit):
            self._forget_if_bare(group)

    def _replay_metadata(self, group_id: str, value: api.GroupMetadataValue | None) -> None:
        group = self._groups.get(group_id)
        if value is None:
            if group is not None:
                if not self._is_started:
                    # A copy is replayed now and then: its members may be left from before the record that let them go.
                    group = self._groups[group_id] = group.without_members()
                group.is_recorded = False
                group.generation, group.protocol_type = 0, None
                self._forget_if_bare(group)
            return
        if group is None:
            group = self._groups[group_id] = Group(group_id)
        known, group.members = group.members, {}
        group.static_members = group.supporters = None
        for recorded in value.members:
            member = known.get(recorded.member_id) if self._is_started else None
            member = member or recorded_member(group, value.protocol, recorded)
            member.assignment = recorded.assignment
            group.add(member)
        group.is_recorded = True
        group.generation = value.generation
        group.protocol_type = value.protocol_type or None
        group.protocol_name = value.protocol
        group.leader_id = value.leader
        group.state_timestamp_ms = value.current_state_timestamp
        group.state = GroupState.STABLE if value.members else GroupState.EMPTY
        if group.state is GroupState.EMPTY:
            self._rebalances.rest(group)
        elif self._is_started:
            self._rebalances.assign(group)

    # -- life --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._is_started = True
        for group in self._groups.values():
            for member in group.members.values():
                self._rebalances.keep_alive(member)
        self._expire_later(self._settings.expiry_check_ms)

    def unload(self, error: ApiError) -> None:
        self._deadlines.stop()
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
            self._expiry_timer = None
        for group in self._groups.values():
            for member in group.members.values():
                self._rebalances.answer_join(member, api.JoinGroupResponse(error_code=error.code))
                member.answer_sync(api.SyncGroupResponse(error_code=error.code))


def _unknown_member(group_id: str) -> ApiError:
    return ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"there is no group {group_id}")
