"""Metadata v0–13 and DescribeTopicPartitions v0: what a client needs to find the leaders of its topics.

Answers are for the listener that the client came in through: another listener's address would be of no use to it. A
topic that a client names and nobody has is created when both the request and auto.create.topics.enable allow it, and
the answer already has its leaders. A leader that is gone is not told: the answer waits a moment for its successor
(`broker/neighbours.py`). Without an authorizer every operation is authorized.

Not done: internal topics are not created by asking for them (their coordinators do that); REBOOTSTRAP_REQUIRED is
never sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NO_NODE, ZERO_TOPIC_ID, NodeId
from ottla.broker.handlers.many_topics import TOPICS_PER_TURN, encode_in_turns
from ottla.broker.node import Node
from ottla.broker.request import Api, Parts, RequestContext
from ottla.metadata.controller.topics import CREATE_TOPICS_VERSION, USE_DEFAULT
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_parts import UNASSIGNED_DIRECTORY, Endpoint, PartitionImage, TopicImage
from ottla.metadata.topic_names import INTERNAL_TOPICS, is_legal_topic_name
from ottla.wire import api
from ottla.wire.apis import ApiKey

# Bits of the operations that a resource has (1 << operation): what an authorizer that allows everything reports.
TOPIC_OPERATIONS: Final = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS: Final = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))
NOT_ASKED: Final = -(2**31)

_TOPIC_IDS_FROM: Final = 12  # Versions 10 and 11 have the field but no server ever looked it up.
_LISTENER_NOT_FOUND_FROM: Final = 6

T = TypeVar("T")


class ListenerView:
    """The cluster through one listener: live brokers, their addresses, leaders that a client can reach."""

    def __init__(self, image: MetadataImage, listener: str) -> None:
        self._image = image
        self._listener = listener
        self._alive = {broker.id for broker in image.brokers.values() if not broker.fenced}
        self._directories = {one: {*image.brokers[one].log_directories, UNASSIGNED_DIRECTORY} for one in self._alive}
        self.endpoints = self.endpoints_of(self._alive)

    def endpoints_of(self, broker_ids: Iterable[NodeId]) -> dict[NodeId, Endpoint]:
        """Of those that have this listener."""
        found = {one: self._image.brokers[one].endpoint(self._listener) for one in sorted(broker_ids)}
        return {one: endpoint for one, endpoint in found.items() if endpoint is not None}

    def leader_of(self, partition: PartitionImage) -> tuple[NodeId, ErrorCode]:
        leader = partition.leader
        if leader in self.endpoints:
            return leader, ErrorCode.NONE
        return NO_NODE, ErrorCode.LISTENER_NOT_FOUND if leader in self._alive else ErrorCode.LEADER_NOT_AVAILABLE

    def offline_replicas(self, partition: PartitionImage) -> list[NodeId]:
        """Of brokers that are down, or whose disk failed or was replaced."""
        return [
            replica
            for replica, directory in zip(partition.replicas, partition.directories, strict=True)
            if directory not in self._directories.get(replica, ())
        ]


def controller_id(node: Node) -> NodeId:
    """A broker that takes administrative requests, as every one does: this one, unless it is a controller alone."""
    brokers = node.image.brokers
    if node.node_id in brokers:
        return node.node_id
    return next((broker.id for broker in brokers.values() if broker.is_active), NO_NODE)


# ---- Metadata ----


async def metadata(node: Node, context: RequestContext, request: api.MetadataRequest) -> api.MetadataResponse | Parts:
    asked = request.topics
    if context.api_version == 0 and not asked:
        asked = None  # Version 0 has no null: an empty list means every topic.
    refused = await _create_missing(node, context, request) if asked else {}
    if len(node.image.brokers) > 1:
        await node.neighbours.wait_replaced(_leaders(node.image, asked))
    view = ListenerView(node.image, context.peer.listener)
    # For who has lost a leader. Administrators, who ask for everything, would ask each that is listed.
    lately = view.endpoints_of(node.neighbours.lost_lately()) if asked else {}
    own = view.endpoints.get(node.node_id)
    if own is not None:
        node.advertised.check(context.peer, own.host, own.port)
    response = api.MetadataResponse(
        brokers=[
            api.MetadataResponse.MetadataResponseBroker(
                node_id=broker_id, host=endpoint.host, port=endpoint.port, rack=node.image.brokers[broker_id].rack
            )
            for broker_id, endpoint in {**view.endpoints, **lately}.items()
        ],
        cluster_id=node.cluster_id,
        controller_id=controller_id(node),
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED
    version = context.api_version
    if asked is None:
        every = list(node.image.topics.values())
        return await _answer(context, response, every, lambda topic: _topic(topic, view, version, operations))
    return await _answer(
        context, response, asked, lambda one: _asked_topic(node.image, one, view, version, operations, refused)
    )


def _leaders(image: MetadataImage, asked: Sequence[api.MetadataRequest.MetadataRequestTopic] | None) -> set[NodeId]:
    """Of the partitions that are asked for; where that is all of them, every broker that may be one."""
    if asked is None:
        return {broker.id for broker in image.brokers.values() if not broker.fenced}
    topics = [image.topics_by_id.get(one.topic_id) or image.topics.get(one.name or "") for one in asked]
    return {partition.leader for topic in topics if topic is not None for partition in topic.partitions.values()}


async def _answer(
    context: RequestContext,
    response: api.MetadataResponse,
    asked: Sequence[T],
    describe: Callable[[T], api.MetadataResponse.MetadataResponseTopic],
) -> api.MetadataResponse | Parts:
    if len(asked) <= TOPICS_PER_TURN:
        response.topics = [describe(one) for one in asked]
        return response
    return [await encode_in_turns(response, asked, describe, context.api_version, context.correlation_id)]


async def _create_missing(node: Node, context: RequestContext, request: api.MetadataRequest) -> dict[str, ApiError]:
    """Creates the named topics that nobody has; returns why some could not be."""
    if not (request.allow_auto_topic_creation and node.config.flag("auto.create.topics.enable")):
        return {}
    missing = [
        topic.name
        for topic in request.topics or ()
        if topic.name is not None
        and topic.name not in node.image.topics
        and topic.name not in INTERNAL_TOPICS
        and is_legal_topic_name(topic.name)
    ]
    if not missing:
        return {}
    creation = api.CreateTopicsRequest(
        topics=[
            api.CreateTopicsRequest.CreatableTopic(
                name=name, num_partitions=USE_DEFAULT, replication_factor=USE_DEFAULT
            )
            for name in dict.fromkeys(missing)
        ]
    )
    try:
        created = await node.change_metadata(ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION, creation)
    except ApiError as error:
        return dict.fromkeys(missing, error)
    # TOPIC_ALREADY_EXISTS is another client's creation meanwhile: the topic is found below.
    return {
        topic.name: ApiError(ErrorCode(topic.error_code), topic.error_message or "")
        for topic in created.topics
        if topic.error_code != ErrorCode.NONE
    }


def _asked_topic(
    image: MetadataImage,
    asked: api.MetadataRequest.MetadataRequestTopic,
    view: ListenerView,
    api_version: int,
    operations: int,
    refused: dict[str, ApiError],
) -> api.MetadataResponse.MetadataResponseTopic:
    if asked.topic_id != ZERO_TOPIC_ID and api_version >= _TOPIC_IDS_FROM:
        topic = image.topics_by_id.get(asked.topic_id)
        error = ErrorCode.UNKNOWN_TOPIC_ID
    elif asked.name is None:
        topic, error = None, ErrorCode.INVALID_REQUEST
    else:
        topic = image.topics.get(asked.name)
        error = _why_missing(asked.name, refused)
    if topic is not None:
        return _topic(topic, view, api_version, operations)
    return api.MetadataResponse.MetadataResponseTopic(
        error_code=error,
        # Before version 12 a name cannot be null.
        name=asked.name if asked.name is not None or api_version >= _TOPIC_IDS_FROM else "",
        topic_id=asked.topic_id,
        is_internal=asked.name in INTERNAL_TOPICS,
        topic_authorized_operations=NOT_ASKED,
    )


def _why_missing(name: str, refused: dict[str, ApiError]) -> ErrorCode:
    if not is_legal_topic_name(name):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if name in refused:
        return refused[name].code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _topic(
    topic: TopicImage, view: ListenerView, api_version: int, operations: int
) -> api.MetadataResponse.MetadataResponseTopic:
    partitions = []
    for number, partition in topic.partitions.items():
        leader, error = view.leader_of(partition)
        if error is ErrorCode.LISTENER_NOT_FOUND and api_version < _LISTENER_NOT_FOUND_FROM:
            error = ErrorCode.LEADER_NOT_AVAILABLE
        partitions.append(
            api.MetadataResponse.MetadataResponsePartition(
                error_code=error,
                partition_index=number,
                leader_id=leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.isr),
                offline_replicas=view.offline_replicas(partition),
            )
        )
    return api.MetadataResponse.MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=operations,
    )


# ---- DescribeTopicPartitions ----


async def describe_topic_partitions(
    node: Node, context: RequestContext, request: api.DescribeTopicPartitionsRequest
) -> api.DescribeTopicPartitionsResponse:
    """Topics in the order of their names, at most so many partitions; `next_cursor` says where to go on."""
    image, cursor = node.image, request.cursor
    response = api.DescribeTopicPartitionsResponse()
    names = sorted({topic.name for topic in request.topics} if request.topics else image.topics)
    if cursor is not None:
        if cursor.partition_index < 0 or (request.topics and cursor.topic_name not in names):
            response.topics = [_undescribed(name, ErrorCode.INVALID_REQUEST) for name in names]
            return response
        names = [name for name in names if name >= cursor.topic_name]
    room = max(1, min(request.response_partition_limit, node.config.integer("max.request.partition.size.limit")))
    view = ListenerView(image, context.peer.listener)
    for name in names:
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        if room == 0:
            response.next_cursor = api.DescribeTopicPartitionsResponse.Cursor(topic_name=name, partition_index=first)
            break
        topic = image.topics.get(name)
        if topic is None:
            response.topics.append(_undescribed(name, _why_missing(name, {})))
            continue
        described = _described(topic, view, range(first, min(first + room, len(topic.partitions))))
        response.topics.append(described)
        room -= len(described.partitions)
        end = first + len(described.partitions)
        if end < len(topic.partitions):
            response.next_cursor = api.DescribeTopicPartitionsResponse.Cursor(topic_name=name, partition_index=end)
            break
    return response


def _described(
    topic: TopicImage, view: ListenerView, numbers: range
) -> api.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic:
    partitions = []
    for number in numbers:
        partition = topic.partitions[number]
        leader, error = view.leader_of(partition)
        partitions.append(
            api.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition(
                error_code=error,
                partition_index=number,
                leader_id=leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.isr),
                eligible_leader_replicas=list(partition.eligible_leader_replicas),
                last_known_elr=list(partition.last_known_elr),
                offline_replicas=view.offline_replicas(partition),
            )
        )
    return api.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _undescribed(
    name: str, error: ErrorCode
) -> api.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic:
    return api.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic(error_code=error, name=name)


APIS: Final[dict[int, Api]] = {
    ApiKey.METADATA: Api(versions=(0, 13), handle=metadata),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Api(versions=(0, 0), handle=describe_topic_partitions),
}
