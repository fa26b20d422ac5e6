"""Elections that an administrator asks for: back to the preferred leader, or any leader where there is none.

Only members of the ISR are elected. The preferred leader is the first replica; another that leads already makes room for
it alone. A partition with the leader it should have is left as it is: naming it again would start an epoch for nothing.

Not done: the unclean election of a replica out of the ISR, whose followers must truncate; it comes with the cluster.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NO_NODE, NodeId
from ottla.metadata.controller.assignments import is_usable
from ottla.metadata.controller.decision import RECORDS_PER_DECISION_MAX, Decision, too_large
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_parts import PartitionImage
from ottla.metadata.records import MetadataRecord
from ottla.wire import api


class ElectionType(IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


_NOBODY_TO_ELECT: Final = {
    ElectionType.PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ElectionType.UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


def decide_elect_leaders(image: MetadataImage, request: api.ElectLeadersRequest) -> Decision[api.ElectLeadersResponse]:
    """Asked about all partitions, it answers only for those that needed an election."""
    if request.election_type not in list(ElectionType):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}.")
    election_type = ElectionType(request.election_type)
    records: list[MetadataRecord] = []
    response = api.ElectLeadersResponse()
    for topic, indexes in _asked(image, request).items():
        results = []
        for index in indexes:
            result = api.ElectLeadersResponse.PartitionResult(partition_id=index, error_message=None)
            try:
                records.append(_elect(image, topic, index, election_type))
            except ApiError as error:
                if error.code is ErrorCode.ELECTION_NOT_NEEDED and request.topic_partitions is None:
                    continue
                result.error_code, result.error_message = error.code, error.message
            results.append(result)
        response.replica_election_results.append(
            api.ElectLeadersResponse.ReplicaElectionResult(topic=topic, partition_result=results)
        )
    if len(records) > RECORDS_PER_DECISION_MAX:
        raise too_large()
    return Decision(records=records, reply=response)


def _asked(image: MetadataImage, request: api.ElectLeadersRequest) -> dict[str, dict[int, None]]:
    """Each partition once: two records for it would be two epochs."""
    if request.topic_partitions is None:
        return {topic.name: dict.fromkeys(topic.partitions) for topic in image.topics.values()}
    asked: dict[str, dict[int, None]] = {}
    for topic in request.topic_partitions:
        asked.setdefault(topic.topic, {}).update(dict.fromkeys(topic.partitions))
    return asked


def _elect(image: MetadataImage, name: str, index: int, election_type: ElectionType) -> api.PartitionChangeRecord:
    topic = image.topics.get(name)
    partition = None if topic is None else topic.partitions.get(index)
    if topic is None or partition is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {name}-{index}.")
    preferred, leader = partition.replicas[0], partition.leader
    if leader == preferred or (election_type is ElectionType.UNCLEAN and leader != NO_NODE):
        raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, f"Broker {leader} leads {name}-{index} already.")
    elected = next(iter(_candidates(image, partition)), None)
    if elected is None or (leader != NO_NODE and elected != preferred):
        raise ApiError(
            _NOBODY_TO_ELECT[election_type],
            f"Of the replicas {list(partition.replicas)} of {name}-{index} none that may lead is alive and in sync.",
        )
    return api.PartitionChangeRecord(partition_id=index, topic_id=topic.id, leader=elected)


def _candidates(image: MetadataImage, partition: PartitionImage) -> list[NodeId]:
    """In the order of the replicas, so that the preferred leader is the first of them where it can lead."""
    return [
        replica
        for replica in partition.replicas
        if replica in partition.isr and (broker := image.brokers.get(replica)) is not None and is_usable(broker)
    ]
