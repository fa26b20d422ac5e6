"""More partitions for existing topics. They only grow; every outcome is per topic, all records form one batch.

That keys move to other partitions when a topic grows is the caller's business; the command line says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NodeId
from ottla.metadata.controller.assignments import check_assignment, partition_record, place
from ottla.metadata.controller.decision import RECORDS_PER_DECISION_MAX, Decision, too_large
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_parts import TopicImage
from ottla.metadata.records import MetadataRecord
from ottla.wire import api


def decide_create_partitions(
    image: MetadataImage, request: api.CreatePartitionsRequest
) -> Decision[api.CreatePartitionsResponse]:
    counts = Counter(topic.name for topic in request.topics)
    records: list[MetadataRecord] = []
    results = []
    for topic in {topic.name: topic for topic in request.topics}.values():
        result = api.CreatePartitionsResponse.CreatePartitionsTopicResult(name=topic.name, error_message=None)
        try:
            if counts[topic.name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            planned = _plan_partitions(image, topic)
            if len(records) + len(planned) > RECORDS_PER_DECISION_MAX:
                raise too_large()
            records += planned
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
        results.append(result)
    if request.validate_only:
        records = []
    return Decision(records=records, reply=api.CreatePartitionsResponse(results=results))


def _plan_partitions(
    image: MetadataImage, wanted: api.CreatePartitionsRequest.CreatePartitionsTopic
) -> list[MetadataRecord]:
    topic = image.topics.get(wanted.name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{wanted.name}' does not exist.")
    current = len(topic.partitions)
    added = wanted.count - current
    if added == 0:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {current} partition(s).")
    if added < 0:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {wanted.name} currently has {current} partition(s); {wanted.count} would not be an increase.",
        )
    if added > RECORDS_PER_DECISION_MAX:
        raise too_large()
    replica_lists = _new_replicas(image, topic, added, wanted.assignments)
    return [
        partition_record(image, topic.id, current + index, replicas) for index, replicas in enumerate(replica_lists)
    ]


def _new_replicas(
    image: MetadataImage,
    topic: TopicImage,
    added: int,
    assignments: Sequence[api.CreatePartitionsRequest.CreatePartitionsAssignment] | None,
) -> Sequence[Sequence[NodeId]]:
    current = len(topic.partitions)
    factor = len(topic.partitions[0].target_replicas)
    if assignments is None:
        return place(
            image,
            topic.id,
            partition_count=added,
            replication_factor=factor,
            first_partition=current,
        )
    if len(assignments) != added:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{added} additional partition(s) were asked for, but {len(assignments)} assignment(s) given.",
        )
    for index, assignment in enumerate(assignments):
        check_assignment(image, current + index, assignment.broker_ids, factor)
    return [assignment.broker_ids for assignment in assignments]
