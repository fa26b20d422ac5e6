"""JoinGroup: who may join, and what its joining means for the group."""

import asyncio
from collections.abc import Callable
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import TimestampMs
from ottla.coordinator.groups.group import UNKNOWN_MEMBER, Group, GroupState
from ottla.coordinator.groups.group_records import metadata_record
from ottla.coordinator.groups.member import Client, JoinFuture, Member, Protocols
from ottla.coordinator.groups.rebalance import Rebalances, Records
from ottla.coordinator.groups.settings import GroupSettings
from ottla.coordinator.machine import Decision
from ottla.coordinator.records import fits_record
from ottla.wire import api

MEMBER_ID_REQUIRED_FROM: Final = 4  # KIP-394
SKIP_ASSIGNMENT_FROM: Final = 9  # KIP-814


class Joins:
    def __init__(self, settings: GroupSettings, rebalances: Rebalances, new_member_id: Callable[[str], str]) -> None:
        self._settings = settings
        self._rebalances = rebalances
        self._new_member_id = new_member_id
        """A fresh id that begins with the given name."""

    def decide(
        self, group: Group, request: api.JoinGroupRequest, client: Client, *, version: int, now_ms: TimestampMs
    ) -> Decision[JoinFuture]:
        _check_names(request, client)
        # Each name once, the first counts: a member has one voice for each.
        by_name: dict[str, bytes] = {}
        for protocol in request.protocols:
            by_name.setdefault(protocol.name, protocol.metadata)
        protocols = tuple(by_name.items())
        self._check_size(group, request.member_id)
        if not group.supports(request.protocol_type, protocols):
            raise ApiError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"{group.group_id} has no protocol in common with this member"
            )
        joining = _Joining(self._rebalances, group, request, client, protocols, version, now_ms)
        if request.member_id != UNKNOWN_MEMBER:
            return joining.again()
        if request.group_instance_id is None:
            member_id = self._new_member_id(client.client_id)
            return joining.as_new(member_id) if version < MEMBER_ID_REQUIRED_FROM else joining.with_id(member_id)
        member_id = self._new_member_id(request.group_instance_id)
        replaced = group.static_member(request.group_instance_id)
        return joining.as_new(member_id) if replaced is None else joining.instead_of(replaced, member_id)

    def _check_size(self, group: Group, member_id: str) -> None:
        """While members come back, those that are there count: if the limit was lowered, the last stay outside."""
        member = group.members.get(member_id)
        match group.state:
            case GroupState.EMPTY:
                return
            case GroupState.PREPARING_REBALANCE:
                is_counted = member is not None and member.join is not None
                count = group.awaiting_join_count
            case _:
                is_counted = member is not None
                count = len(group.members)
        if not is_counted and count >= self._settings.members_max:
            if member is not None:
                self._rebalances.remove(member)
            self._rebalances.remove_pending(group, member_id)
            raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"{group.group_id} has {count} members")


def _check_names(request: api.JoinGroupRequest, client: Client) -> None:
    names = [client.client_id, request.group_instance_id or "", request.protocol_type]
    for name in (*names, *(protocol.name for protocol in request.protocols)):
        if not fits_record(name):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"a name of {len(name)} characters is too long")


class _Joining:
    """One request on its way into a group."""

    __slots__ = ("_client", "_group", "_now_ms", "_protocols", "_rebalances", "_request", "_version")

    def __init__(
        self,
        rebalances: Rebalances,
        group: Group,
        request: api.JoinGroupRequest,
        client: Client,
        protocols: Protocols,
        version: int,
        now_ms: TimestampMs,
    ) -> None:
        self._rebalances = rebalances
        self._group = group
        self._request = request
        self._client = client
        self._protocols = protocols
        self._version = version
        self._now_ms = now_ms

    @property
    def _rebalance_timeout_ms(self) -> int:
        timeout_ms: int = self._request.rebalance_timeout_ms
        return self._request.session_timeout_ms if timeout_ms == -1 else timeout_ms  # Version 0 has one for both.

    def with_id(self, member_id: str) -> Decision[JoinFuture]:
        """It shall ask again by this name, so that a join that is repeated does not become a second member."""
        self._rebalances.add_pending(self._group, member_id, self._request.session_timeout_ms)
        return _answer(api.JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id))

    def as_new(self, member_id: str) -> Decision[JoinFuture]:
        group, request = self._group, self._request
        if not group.members:
            group.protocol_type = request.protocol_type
        member = Member(
            group,
            member_id,
            client=self._client,
            instance_id=request.group_instance_id,
            protocols=self._protocols,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
        )
        join = _new_future()
        return Decision(self._rebalances.add(member, join, f"{member_id} joins ({request.reason})"), join)

    def again(self) -> Decision[JoinFuture]:
        """A member that knows its name."""
        group, request, rebalances = self._group, self._request, self._rebalances
        if request.group_instance_id is None and rebalances.remove_pending(group, request.member_id):
            return self.as_new(request.member_id)
        member = group.require_member(request.member_id, request.group_instance_id)
        is_changed = member.protocols != self._protocols
        match group.state:
            case GroupState.PREPARING_REBALANCE:
                must_rebalance = True
            case GroupState.STABLE:
                # A leader that joins again wants to assign anew: the topics changed, say.
                must_rebalance = is_changed or member.member_id == group.leader_id
            case _:
                must_rebalance = is_changed
        if not must_rebalance:  # It did not get our last answer.
            rebalances.keep_alive(member)
            return _answer(rebalances.joined(group, member))
        return self._update(member, f"{member.member_id} joins again ({request.reason})")

    def _update(self, member: Member, reason: str) -> Decision[JoinFuture]:
        self._adopt(member)
        join = _new_future()
        self._rebalances.wait_for_join(member, join)
        return Decision(self._rebalances.begin_or_go_on(self._group, reason), join)

    def _adopt(self, member: Member) -> None:
        self._group.change_protocols(member, self._protocols)
        member.rebalance_timeout_ms = self._rebalance_timeout_ms
        member.session_timeout_ms = self._request.session_timeout_ms

    def instead_of(self, replaced: Member, member_id: str) -> Decision[JoinFuture]:
        """A static member restarted: it takes over, and whoever still goes by the old id is fenced (KIP-345)."""
        group, rebalances = self._group, self._rebalances
        was_leader = group.leader_id
        member = self._replace(replaced, member_id)
        reason = f"static member {member.instance_id} restarted as {member_id}"
        if group.state is not GroupState.STABLE or group.elect_protocol() != group.protocol_name:
            join = _new_future()
            rebalances.wait_for_join(member, join)
            return Decision(rebalances.begin_or_go_on(group, reason), join)
        rebalances.keep_alive(member)
        response = rebalances.joined(group, member)
        if self._version >= SKIP_ASSIGNMENT_FROM:
            response.skip_assignment = member_id == group.leader_id
        else:
            # To the old id, so that a leader that cannot be told to skip does not take itself for one and assign.
            response.leader, response.members = was_leader or "", []
        return _answer(response, self._record_replacement())

    def _replace(self, replaced: Member, member_id: str) -> Member:
        group = self._group
        leads = group.leader_id == replaced.member_id
        self._rebalances.remove(replaced, ErrorCode.FENCED_INSTANCE_ID)
        member = Member(
            group,
            member_id,
            client=self._client,
            instance_id=replaced.instance_id,
            protocols=self._protocols,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            session_timeout_ms=self._request.session_timeout_ms,
        )
        member.assignment = replaced.assignment
        group.add(member)
        if leads:
            group.leader_id = member_id
        self._rebalances.keep_alive(member)
        return member

    def _record_replacement(self) -> Records:
        group = self._group
        assignments = {member.member_id: member.assignment for member in group.members.values()}
        return (metadata_record(group, generation=group.generation, assignments=assignments, now_ms=self._now_ms),)


def _new_future() -> JoinFuture:
    return asyncio.get_running_loop().create_future()


def _answer(response: api.JoinGroupResponse, records: Records = ()) -> Decision[JoinFuture]:
    future = _new_future()
    future.set_result(response)
    return Decision(records, future)
