"""DescribeGroups v0–6, ListGroups v0–5, DeleteGroups v0–2. Without an authorizer every operation is authorized."""

from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.handlers.metadata import NOT_ASKED
from ottla.broker.node import Node
from ottla.broker.request import Api, RequestContext
from ottla.coordinator.groups.group import Group, GroupState
from ottla.coordinator.groups.machine import GroupMachine
from ottla.coordinator.groups.member import Member
from ottla.coordinator.machine import Decision
from ottla.wire import api
from ottla.wire.apis import ApiKey

NOT_FOUND_FROM: Final = 6  # Of DescribeGroups; before that an unknown group is a dead one.
CLASSIC: Final = "classic"
GROUP_OPERATIONS: Final = (
    1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
)  # Read, delete, describe, describe and alter configs.

DescribedGroup = api.DescribeGroupsResponse.DescribedGroup
DescribedMember = api.DescribeGroupsResponse.DescribedGroupMember


async def describe_groups(
    node: Node, context: RequestContext, request: api.DescribeGroupsRequest
) -> api.DescribeGroupsResponse:
    response = api.DescribeGroupsResponse()
    for group_id in request.groups:
        try:
            described = await node.coordinators.groups.submit(
                await _settled_partition(node, group_id),
                lambda machine, group_id=group_id: Decision((), _describe(machine, group_id)),  # type: ignore[misc]
            )
        except ApiError as error:
            described = DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
        if described.group_state == GroupState.DEAD.value and context.api_version >= NOT_FOUND_FROM:
            described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            described.error_message = f"Group {group_id} not found."
        elif described.error_code == ErrorCode.NONE and request.include_authorized_operations:
            described.authorized_operations = GROUP_OPERATIONS
        response.groups.append(described)
    return response


async def _settled_partition(node: Node, group_id: str) -> int:
    """Where the group lives, which has no members any more whose session is over."""
    index = await node.coordinators.wait_group_partition(group_id)
    await node.coordinators.groups.submit(index, lambda machine: machine.decide_overdue(group_id))
    return index


def _describe(machine: GroupMachine, group_id: str) -> DescribedGroup:
    group = machine.group(group_id)
    if group is None:
        return DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value, authorized_operations=NOT_ASKED)
    is_stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=[_describe_member(group, member, is_stable=is_stable) for member in group.members.values()],
        authorized_operations=NOT_ASKED,
    )


def _describe_member(group: Group, member: Member, *, is_stable: bool) -> DescribedMember:
    """While a group is rebalanced nobody's metadata or assignment holds."""
    return DescribedMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client.client_id,
        client_host=member.client.host,
        member_metadata=member.metadata_for(group.protocol_name) if is_stable else b"",
        member_assignment=member.assignment if is_stable else b"",
    )


async def list_groups(node: Node, context: RequestContext, request: api.ListGroupsRequest) -> api.ListGroupsResponse:
    runtime = node.coordinators.groups
    if runtime.is_loading:
        return api.ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    states = {state.lower() for state in request.states_filter}
    types = {group_type.lower() for group_type in request.types_filter}
    if types and CLASSIC not in types:
        return api.ListGroupsResponse()
    listed: list[api.ListGroupsResponse.ListedGroup] = []
    for index in runtime.machines():
        try:
            groups = await runtime.submit(index, lambda machine: Decision((), machine.groups()))
        except ApiError as error:
            return api.ListGroupsResponse(error_code=error.code)
        listed += [_list(group) for group in groups if not states or group.state.value.lower() in states]
    return api.ListGroupsResponse(groups=listed)


def _list(group: Group) -> api.ListGroupsResponse.ListedGroup:
    return api.ListGroupsResponse.ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        group_state=group.state.value,
        group_type=CLASSIC,
    )


async def delete_groups(
    node: Node, context: RequestContext, request: api.DeleteGroupsRequest
) -> api.DeleteGroupsResponse:
    response = api.DeleteGroupsResponse()
    for group_id in request.groups_names:
        try:
            code = await node.coordinators.groups.submit(
                await _settled_partition(node, group_id),
                lambda machine, group_id=group_id: machine.decide_delete(group_id),  # type: ignore[misc]
            )
        except ApiError as error:
            code = error.code
        response.results.append(api.DeleteGroupsResponse.DeletableGroupResult(group_id=group_id, error_code=code))
    return response


APIS: Final[dict[int, Api]] = {
    ApiKey.DESCRIBE_GROUPS: Api(versions=(0, 6), handle=describe_groups),
    ApiKey.LIST_GROUPS: Api(versions=(0, 5), handle=list_groups),
    ApiKey.DELETE_GROUPS: Api(versions=(0, 2), handle=delete_groups),
}
