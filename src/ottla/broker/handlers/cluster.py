"""DescribeCluster v0–2: the brokers of the cluster, or its controllers.

Controllers are told by one of them (`--bootstrap-controller` of Kafka's tools); its listeners are the same as a broker's.

Not done: authorization.
"""

from __future__ import annotations

from typing import Final

from ottla.base.errors import ErrorCode
from ottla.broker.handlers.metadata import CLUSTER_OPERATIONS, NOT_ASKED, controller_id
from ottla.broker.node import Node
from ottla.broker.request import Api, RequestContext
from ottla.metadata.image_parts import BrokerImage
from ottla.wire import api
from ottla.wire.apis import ApiKey

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


async def describe_cluster(
    node: Node, context: RequestContext, request: api.DescribeClusterRequest
) -> api.DescribeClusterResponse:
    if request.endpoint_type == _CONTROLLERS and node.node_id in node.image.controllers:
        return _controllers(node, context.peer.listener)
    if request.endpoint_type != _BROKERS:
        return _refused(request)
    response = api.DescribeClusterResponse(
        cluster_id=node.cluster_id,
        controller_id=controller_id(node),
        endpoint_type=_BROKERS,
        error_message=None,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )
    for broker in node.image.brokers.values():
        if not broker.fenced or request.include_fenced_brokers:
            _add_broker(response, broker, context.peer.listener)
    return response


def _controllers(node: Node, listener: str) -> api.DescribeClusterResponse:
    response = api.DescribeClusterResponse(
        cluster_id=node.cluster_id,
        controller_id=node.controller_id,
        endpoint_type=_CONTROLLERS,
        error_message=None,
        cluster_authorized_operations=NOT_ASKED,
    )
    for controller in node.image.controllers.values():
        for endpoint in controller.endpoints:
            if endpoint.name == listener:
                response.brokers.append(
                    api.DescribeClusterResponse.DescribeClusterBroker(
                        broker_id=controller.id, host=endpoint.host, port=endpoint.port, rack=None
                    )
                )
    return response


def _add_broker(response: api.DescribeClusterResponse, broker: BrokerImage, listener: str) -> None:
    endpoint = broker.endpoint(listener)
    if endpoint is not None:
        response.brokers.append(
            api.DescribeClusterResponse.DescribeClusterBroker(
                broker_id=broker.id,
                host=endpoint.host,
                port=endpoint.port,
                rack=broker.rack,
                is_fenced=broker.fenced,
            )
        )


def _refused(request: api.DescribeClusterRequest) -> api.DescribeClusterResponse:
    known = request.endpoint_type == _CONTROLLERS
    return api.DescribeClusterResponse(
        error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
        error_message=(
            "This node is a broker alone: controllers are described by one of them."
            if known
            else f"Unknown endpoint type {request.endpoint_type}."
        ),
        endpoint_type=request.endpoint_type,
    )


APIS: Final[dict[int, Api]] = {
    ApiKey.DESCRIBE_CLUSTER: Api(versions=(0, 2), handle=describe_cluster),
}
