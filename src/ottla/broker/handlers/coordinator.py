"""FindCoordinator v0–6: the broker of a group or of a transactional id. Share groups have none yet (docs/GAPS.md)."""

from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.handlers.metadata import ListenerView
from ottla.broker.node import Node
from ottla.broker.request import Api, RequestContext
from ottla.metadata.topic_names import GROUP_TOPIC, TRANSACTION_TOPIC
from ottla.wire import api
from ottla.wire.apis import ApiKey

BATCHED_FROM: Final = 4
_TOPICS: Final = {0: GROUP_TOPIC, 1: TRANSACTION_TOPIC}


async def find_coordinator(
    node: Node, context: RequestContext, request: api.FindCoordinatorRequest
) -> api.FindCoordinatorResponse:
    keys = request.coordinator_keys if context.api_version >= BATCHED_FROM else [request.key]
    found = [await _find(node, context, request.key_type, key) for key in keys]
    if context.api_version >= BATCHED_FROM:
        return api.FindCoordinatorResponse(coordinators=found)
    (one,) = found
    return api.FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


async def _find(
    node: Node, context: RequestContext, key_type: int, key: str
) -> api.FindCoordinatorResponse.Coordinator:
    try:
        topic = _TOPICS.get(key_type)
        if topic is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"coordinators of type {key_type} are not served (docs/GAPS.md)")
        node_id = await node.coordinators.find_living(topic, key)
        endpoint = ListenerView(node.image, context.peer.listener).endpoints.get(node_id)
        if endpoint is None:
            reason = f"broker {node_id} has no listener {context.peer.listener}"
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, reason)
    except ApiError as error:
        return api.FindCoordinatorResponse.Coordinator(
            key=key, node_id=-1, host="", port=-1, error_code=error.code, error_message=error.message
        )
    return api.FindCoordinatorResponse.Coordinator(key=key, node_id=node_id, host=endpoint.host, port=endpoint.port)


APIS: Final[dict[int, Api]] = {ApiKey.FIND_COORDINATOR: Api(versions=(0, 6), handle=find_coordinator)}
