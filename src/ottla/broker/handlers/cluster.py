"""DescribeCluster v0–2 and DescribeQuorum v0–2: the brokers, and the voters of the metadata log.

A broker listener tells brokers only; controllers are asked at theirs. The quorum is this node alone: what is committed
is what its log holds.

Not done: authorization; observers of the metadata log come with the cluster.
"""

from __future__ import annotations

from typing import Final

from ottla.base.errors import ErrorCode
from ottla.broker.handlers.metadata import CLUSTER_OPERATIONS, NOT_ASKED, controller_id
from ottla.broker.node import Node
from ottla.broker.request import Api, RequestContext
from ottla.metadata.image_parts import BrokerImage
from ottla.metadata.topic_names import METADATA_TOPIC
from ottla.wire import api
from ottla.wire.apis import ApiKey

_BROKERS: Final = 1
_CONTROLLERS: Final = 2
_METADATA_PARTITION: Final = 0


async def describe_cluster(
    node: Node, context: RequestContext, request: api.DescribeClusterRequest
) -> api.DescribeClusterResponse:
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
            "This is a broker listener: controllers are described at a controller listener."
            if known
            else f"Unknown endpoint type {request.endpoint_type}."
        ),
        endpoint_type=request.endpoint_type,
    )


async def describe_quorum(
    node: Node, context: RequestContext, request: api.DescribeQuorumRequest
) -> api.DescribeQuorumResponse:
    response = api.DescribeQuorumResponse(error_message=None)
    for topic in request.topics:
        response.topics.append(
            api.DescribeQuorumResponse.TopicData(
                topic_name=topic.topic_name,
                partitions=[_quorum(node, topic.topic_name, item.partition_index) for item in topic.partitions],
            )
        )
    response.nodes = [
        api.DescribeQuorumResponse.Node(
            node_id=controller.id,
            listeners=[
                api.DescribeQuorumResponse.Listener(name=one.name, host=one.host, port=one.port)
                for one in controller.endpoints
            ],
        )
        for controller in node.image.controllers.values()
    ]
    return response


def _quorum(node: Node, topic: str, partition: int) -> api.DescribeQuorumResponse.PartitionData:
    if (topic, partition) != (METADATA_TOPIC, _METADATA_PARTITION):
        return api.DescribeQuorumResponse.PartitionData(
            partition_index=partition,
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            error_message=f"Only {METADATA_TOPIC}-{_METADATA_PARTITION} has a quorum.",
            leader_id=-1,
        )
    end_offset = node.image.offset + 1
    now_ms = node.clock.now_ms()
    voter = api.DescribeQuorumResponse.ReplicaState(
        replica_id=node.node_id,
        log_end_offset=end_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    return api.DescribeQuorumResponse.PartitionData(
        partition_index=partition,
        error_message=None,
        leader_id=node.node_id,
        leader_epoch=node.image.epoch,
        high_watermark=end_offset,
        current_voters=[voter],
    )


APIS: Final[dict[int, Api]] = {
    ApiKey.DESCRIBE_CLUSTER: Api(versions=(0, 2), handle=describe_cluster),
    ApiKey.DESCRIBE_QUORUM: Api(versions=(0, 2), handle=describe_quorum),
}
