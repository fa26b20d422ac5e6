"""What brokers ask the active controller: BrokerRegistration v0–4, BrokerHeartbeat v0–1, ControllerRegistration v0,
AlterPartition v2–3, AssignReplicasToDirs v0, AllocateProducerIds v0. And an administrator: UnregisterBroker v0.

All but the last are among nodes and not advertised to clients.

Not done: cordoned log directories (BrokerHeartbeat v2, KIP-1066).
"""

from __future__ import annotations

from typing import Final

from ottla.base.errors import ApiError
from ottla.broker.node import Node
from ottla.broker.request import Api, RequestContext
from ottla.wire import api
from ottla.wire.apis import ApiKey


async def broker_registration(
    node: Node, context: RequestContext, request: api.BrokerRegistrationRequest
) -> api.BrokerRegistrationResponse:
    try:
        return api.BrokerRegistrationResponse(broker_epoch=await node.active_controller.register_broker(request))
    except ApiError as error:
        return api.BrokerRegistrationResponse(error_code=error.code)


async def broker_heartbeat(
    node: Node, context: RequestContext, request: api.BrokerHeartbeatRequest
) -> api.BrokerHeartbeatResponse:
    node.callers.on_call(request.broker_id, context)
    try:
        return await node.active_controller.heartbeat(request)
    except ApiError as error:
        return api.BrokerHeartbeatResponse(error_code=error.code)


async def controller_registration(
    node: Node, context: RequestContext, request: api.ControllerRegistrationRequest
) -> api.ControllerRegistrationResponse:
    try:
        await node.active_controller.register_controller(request)
    except ApiError as error:
        return api.ControllerRegistrationResponse(error_code=error.code, error_message=error.message)
    return api.ControllerRegistrationResponse(error_message=None)


async def alter_partition(
    node: Node, context: RequestContext, request: api.AlterPartitionRequest
) -> api.AlterPartitionResponse:
    try:
        return await node.active_controller.alter_partition(request)
    except ApiError as error:
        return api.AlterPartitionResponse(error_code=error.code)


async def assign_replicas_to_dirs(
    node: Node, context: RequestContext, request: api.AssignReplicasToDirsRequest
) -> api.AssignReplicasToDirsResponse:
    try:
        return await node.active_controller.assign_replicas_to_dirs(request)
    except ApiError as error:
        return api.AssignReplicasToDirsResponse(error_code=error.code)


async def allocate_producer_ids(
    node: Node, context: RequestContext, request: api.AllocateProducerIdsRequest
) -> api.AllocateProducerIdsResponse:
    try:
        block = await node.active_controller.allocate_producer_ids(request)
    except ApiError as error:
        return api.AllocateProducerIdsResponse(error_code=error.code)
    return api.AllocateProducerIdsResponse(producer_id_start=block.first, producer_id_len=block.end - block.first)


async def unregister_broker(
    node: Node, context: RequestContext, request: api.UnregisterBrokerRequest
) -> api.UnregisterBrokerResponse:
    try:
        return await node.active_controller.unregister_broker(request)
    except ApiError as error:
        return api.UnregisterBrokerResponse(error_code=error.code, error_message=error.message)


APIS: Final[dict[int, Api]] = {
    ApiKey.BROKER_REGISTRATION: Api(
        versions=(0, 4), handle=broker_registration, is_for_controller=True, is_internal=True
    ),
    ApiKey.BROKER_HEARTBEAT: Api(versions=(0, 1), handle=broker_heartbeat, is_for_controller=True, is_internal=True),
    ApiKey.CONTROLLER_REGISTRATION: Api(
        versions=(0, 0), handle=controller_registration, is_for_controller=True, is_internal=True
    ),
    ApiKey.ALTER_PARTITION: Api(versions=(2, 3), handle=alter_partition, is_for_controller=True, is_internal=True),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: Api(
        versions=(0, 0), handle=assign_replicas_to_dirs, is_for_controller=True, is_internal=True
    ),
    ApiKey.ALLOCATE_PRODUCER_IDS: Api(
        versions=(0, 0), handle=allocate_producer_ids, is_for_controller=True, is_internal=True
    ),
    ApiKey.UNREGISTER_BROKER: Api(versions=(0, 0), handle=unregister_broker, is_for_controller=True),
}
