"""SyncGroup, Heartbeat, LeaveGroup, and the end of sessions."""

import asyncio

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import TimestampMs
from ottla.coordinator.groups.group import UNKNOWN_MEMBER, Group, GroupState
from ottla.coordinator.groups.group_records import metadata_record
from ottla.coordinator.groups.member import Member, PendingMember, SyncFuture
from ottla.coordinator.groups.rebalance import Rebalances, Records
from ottla.coordinator.machine import Decision
from ottla.wire import api


class Membership:
    def __init__(self, rebalances: Rebalances) -> None:
        self._rebalances = rebalances

    # -- requests ----------------------------------------------------------------------------------------------------

    def decide_sync(self, group: Group, request: api.SyncGroupRequest, now_ms: TimestampMs) -> Decision[SyncFuture]:
        member = self._require_current(group, request.member_id, request.group_instance_id, request.generation_id)
        if _differ(request.protocol_type, group.protocol_type) or _differ(request.protocol_name, group.protocol_name):
            raise ApiError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"{group.group_id} runs {group.protocol_type}/{group.protocol_name}",
            )
        sync: SyncFuture = asyncio.get_running_loop().create_future()
        match group.state:
            case GroupState.COMPLETING_REBALANCE:
                member.answer_sync(api.SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
                member.sync = sync
                if member.member_id == group.leader_id:
                    return Decision(self._assignment(group, request, now_ms), sync)
                self._rebalances.synced(member)
            case GroupState.STABLE:
                self._rebalances.synced(member)
                self._rebalances.keep_alive(member)
                sync.set_result(self._rebalances.assigned(group, member))
            case _:
                raise _rebalancing(group)
        return Decision((), sync)

    @staticmethod
    def _assignment(group: Group, request: api.SyncGroupRequest, now_ms: TimestampMs) -> Records:
        """Whom the leader forgot gets nothing; whom it made up is passed over."""
        assignments = {given.member_id: given.assignment for given in request.assignments}
        return (metadata_record(group, generation=group.generation, assignments=assignments, now_ms=now_ms),)

    def decide_heartbeat(self, group: Group, request: api.HeartbeatRequest) -> None:
        """`ApiError` tells a member what to do; REBALANCE_IN_PROGRESS keeps it alive all the same."""
        member = self._require_current(group, request.member_id, request.group_instance_id, request.generation_id)
        self._rebalances.keep_alive(member)
        if group.state is GroupState.PREPARING_REBALANCE:
            raise _rebalancing(group)

    @staticmethod
    def _require_current(group: Group, member_id: str, instance_id: str | None, generation: int) -> Member:
        member = group.require_member(member_id, instance_id)
        if generation != group.generation:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION, f"{group.group_id} is at generation {group.generation}")
        return member

    def decide_leave(
        self, group: Group, leaving: list[api.LeaveGroupRequest.MemberIdentity]
    ) -> Decision[list[ErrorCode]]:
        """An outcome for each of them. Without a member id an administrator removes a static member."""
        count_before = len(group.members)
        codes = [self._leave(group, one.member_id, one.group_instance_id) for one in leaving]
        if len(group.members) == count_before:  # At most ids went that nobody had joined with yet.
            return Decision(self._rebalances.go_on(group), codes)
        names = ", ".join(one.member_id or f"{one.group_instance_id}" for one in leaving)
        return Decision(self._rebalances.begin_or_go_on(group, f"{names} left"), codes)

    def _leave(self, group: Group, member_id: str, instance_id: str | None) -> ErrorCode:
        if member_id != UNKNOWN_MEMBER and self._rebalances.remove_pending(group, member_id):
            return ErrorCode.NONE
        try:
            if member_id == UNKNOWN_MEMBER:
                static = group.static_member(instance_id)
                member_id = UNKNOWN_MEMBER if static is None else static.member_id
            member = group.require_member(member_id, instance_id)
        except ApiError as error:
            return error.code
        self._rebalances.remove(member)
        return ErrorCode.NONE

    # -- time --------------------------------------------------------------------------------------------------------

    def expire(self, member: Member) -> Records:
        """Its session is over, unless it waits for us."""
        group = member.group
        if group.members.get(member.member_id) is not member:
            return ()
        if member.is_listening and not member.is_new:
            self._rebalances.keep_alive(member)
            return ()
        self._rebalances.remove(member)
        return self._rebalances.begin_or_go_on(group, f"{member.member_id} was not heard of")

    def expire_pending(self, pending: PendingMember) -> Records:
        self._rebalances.remove_pending(pending.group, pending.member_id)
        return self._rebalances.go_on(pending.group)


def _differ(asked: str | None, actual: str | None) -> bool:
    return asked is not None and actual is not None and asked != actual


def _rebalancing(group: Group) -> ApiError:
    return ApiError(ErrorCode.REBALANCE_IN_PROGRESS, f"{group.group_id} is being rebalanced")
