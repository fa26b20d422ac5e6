"""JoinGroup v0–9, SyncGroup v0–5, Heartbeat v0–4, LeaveGroup v0–5: members of classic groups.

A join or a sync that waits for the group's other members keeps its connection waiting, as in Kafka; clients beat over it
again once they are answered. A heartbeat to a coordinator that is still loading is granted: the member cannot know better.
"""

from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.node import Node
from ottla.broker.request import Api, RequestContext
from ottla.coordinator.groups.member import Client
from ottla.wire import api
from ottla.wire.apis import ApiKey

BATCHED_LEAVE_FROM: Final = 3
NO_PROTOCOL_FROM: Final = 7  # A join that is refused has none; before that its name is empty.
PROTOCOL_REQUIRED_FROM: Final = 5  # Of SyncGroup (KIP-559).


async def join_group(node: Node, context: RequestContext, request: api.JoinGroupRequest) -> api.JoinGroupResponse:
    client = Client(context.client_id or "", f"/{context.peer.host}")
    try:
        joined = await node.coordinators.groups.submit_and_wait(
            await member_partition(node, request.group_id),
            lambda machine: machine.decide_join(request, client, version=context.api_version),
        )
    except ApiError as error:
        joined = api.JoinGroupResponse(error_code=error.code, member_id=request.member_id)
    if joined.error_code != ErrorCode.NONE and context.api_version >= NO_PROTOCOL_FROM:
        joined.protocol_name = None
    return joined


async def sync_group(node: Node, context: RequestContext, request: api.SyncGroupRequest) -> api.SyncGroupResponse:
    names = request.protocol_type, request.protocol_name
    if None in names and context.api_version >= PROTOCOL_REQUIRED_FROM:
        return api.SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    try:
        return await node.coordinators.groups.submit_and_wait(
            await member_partition(node, request.group_id), lambda machine: machine.decide_sync(request)
        )
    except ApiError as error:
        return api.SyncGroupResponse(error_code=error.code)


async def heartbeat(node: Node, context: RequestContext, request: api.HeartbeatRequest) -> api.HeartbeatResponse:
    try:
        await node.coordinators.groups.submit(
            await member_partition(node, request.group_id), lambda machine: machine.decide_heartbeat(request)
        )
    except ApiError as error:
        if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return api.HeartbeatResponse()
        return api.HeartbeatResponse(error_code=error.code)
    return api.HeartbeatResponse()


async def leave_group(node: Node, context: RequestContext, request: api.LeaveGroupRequest) -> api.LeaveGroupResponse:
    is_batched = context.api_version >= BATCHED_LEAVE_FROM
    leaving = request.members if is_batched else [api.LeaveGroupRequest.MemberIdentity(member_id=request.member_id)]
    try:
        codes = await node.coordinators.groups.submit(
            await member_partition(node, request.group_id),
            lambda machine: machine.decide_leave(request.group_id, leaving),
        )
    except ApiError as error:
        return api.LeaveGroupResponse(error_code=error.code)
    if not is_batched:
        return api.LeaveGroupResponse(error_code=codes[0])
    return api.LeaveGroupResponse(
        members=[
            api.LeaveGroupResponse.MemberResponse(
                member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=code
            )
            for one, code in zip(leaving, codes, strict=True)
        ]
    )


async def member_partition(node: Node, group_id: str) -> int:
    """Where the group lives. Only offsets may be kept under the empty name, by clients of long ago."""
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID, "a group has a name")
    return await node.coordinators.wait_group_partition(group_id)


APIS: Final[dict[int, Api]] = {
    ApiKey.JOIN_GROUP: Api(versions=(0, 9), handle=join_group),
    ApiKey.SYNC_GROUP: Api(versions=(0, 5), handle=sync_group),
    ApiKey.HEARTBEAT: Api(versions=(0, 4), handle=heartbeat),
    ApiKey.LEAVE_GROUP: Api(versions=(0, 5), handle=leave_group),
}
