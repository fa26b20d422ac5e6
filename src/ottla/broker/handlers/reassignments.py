"""ElectLeaders v0–2, AlterPartitionReassignments v0–1, ListPartitionReassignments v0: who leads, who holds replicas.

Elections are decided by the controller. A reassignment is checked against the cluster image: one to the replicas that a
partition has is done already, and one to brokers that do not exist is refused, which on one node is every other.

Not done: replicas do not move between brokers yet (docs/GAPS.md); `timeout_ms` is not a bound of its own.
"""

from __future__ import annotations

from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.node import Node
from ottla.broker.request import Api, RequestContext
from ottla.metadata.controller.assignments import check_assignment
from ottla.metadata.controller.elections import decide_elect_leaders
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_parts import PartitionImage, TopicImage
from ottla.wire import api
from ottla.wire.apis import ApiKey


async def elect_leaders(
    node: Node, context: RequestContext, request: api.ElectLeadersRequest
) -> api.ElectLeadersResponse:
    try:
        return await node.submit(lambda image: decide_elect_leaders(image, request))
    except ApiError as error:
        return api.ElectLeadersResponse(
            error_code=error.code,
            replica_election_results=[
                api.ElectLeadersResponse.ReplicaElectionResult(
                    topic=topic.topic,
                    partition_result=[
                        api.ElectLeadersResponse.PartitionResult(
                            partition_id=index, error_code=error.code, error_message=error.message
                        )
                        for index in topic.partitions
                    ],
                )
                for topic in request.topic_partitions or ()
            ],
        )


async def alter_partition_reassignments(
    node: Node, context: RequestContext, request: api.AlterPartitionReassignmentsRequest
) -> api.AlterPartitionReassignmentsResponse:
    response = api.AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, error_message=None
    )
    for topic in request.topics:
        answers = []
        for wanted in topic.partitions:
            answer = api.AlterPartitionReassignmentsResponse.ReassignablePartitionResponse(
                partition_index=wanted.partition_index, error_message=None
            )
            try:
                _check_reassignment(
                    node.image, topic.name, wanted, may_change_factor=request.allow_replication_factor_change
                )
            except ApiError as error:
                answer.error_code, answer.error_message = error.code, error.message
            answers.append(answer)
        response.responses.append(
            api.AlterPartitionReassignmentsResponse.ReassignableTopicResponse(name=topic.name, partitions=answers)
        )
    return response


def _check_reassignment(
    image: MetadataImage,
    topic: str,
    wanted: api.AlterPartitionReassignmentsRequest.ReassignablePartition,
    *,
    may_change_factor: bool,
) -> None:
    """Returns where nothing is left to do."""
    index = wanted.partition_index
    partition = image.topics[topic].partitions.get(index) if topic in image.topics else None
    if partition is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {topic}-{index}.")
    if wanted.replicas is None:
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"No reassignment of {topic}-{index} is in progress.")
    check_assignment(image, index, wanted.replicas, replication_factor=None)
    if not may_change_factor and len(wanted.replicas) != len(partition.replicas):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{topic}-{index} has {len(partition.replicas)} replica(s); the request forbids to change that.",
        )
    if tuple(wanted.replicas) != partition.replicas:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{topic}-{index} stays on {list(partition.replicas)}: replicas do not move between brokers yet.",
        )


async def list_partition_reassignments(
    node: Node, context: RequestContext, request: api.ListPartitionReassignmentsRequest
) -> api.ListPartitionReassignmentsResponse:
    """What does not exist is not under way, and so it is left out, as in Kafka."""
    response = api.ListPartitionReassignmentsResponse(error_message=None)
    topics = node.image.topics
    if request.topics is None:
        asked = [(topic, list(topic.partitions)) for topic in topics.values()]
    else:
        asked = [(topics[item.name], item.partition_indexes) for item in request.topics if item.name in topics]
    for topic, indexes in asked:
        if ongoing := _ongoing(topic, indexes):
            response.topics.append(
                api.ListPartitionReassignmentsResponse.OngoingTopicReassignment(name=topic.name, partitions=ongoing)
            )
    return response


def _ongoing(
    topic: TopicImage, indexes: list[int]
) -> list[api.ListPartitionReassignmentsResponse.OngoingPartitionReassignment]:
    return [
        api.ListPartitionReassignmentsResponse.OngoingPartitionReassignment(
            partition_index=index,
            replicas=list(partition.replicas),
            adding_replicas=list(partition.adding_replicas),
            removing_replicas=list(partition.removing_replicas),
        )
        for index in indexes
        if (partition := topic.partitions.get(index)) is not None and _is_moving(partition)
    ]


def _is_moving(partition: PartitionImage) -> bool:
    return bool(partition.adding_replicas or partition.removing_replicas)


APIS: Final[dict[int, Api]] = {
    ApiKey.ELECT_LEADERS: Api(versions=(0, 2), handle=elect_leaders),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Api(versions=(0, 1), handle=alter_partition_reassignments),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Api(versions=(0, 0), handle=list_partition_reassignments),
}
