"""AssignReplicasToDirs: a broker with several log directories tells where its replicas are (KIP-858).

The controller needs it when one of them fails: who leads from there must be replaced. Outcomes are per partition.
"""

from __future__ import annotations

from uuid import UUID

from ottla.base.errors import ErrorCode
from ottla.base.types import NodeId, TopicId
from ottla.metadata.controller.brokers import registered_broker
from ottla.metadata.controller.decision import Decision
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import MetadataRecord
from ottla.wire import api


def decide_assign_replicas_to_dirs(
    image: MetadataImage, request: api.AssignReplicasToDirsRequest
) -> Decision[api.AssignReplicasToDirsResponse]:
    registered_broker(image, request.broker_id, request.broker_epoch)
    records: list[MetadataRecord] = []
    response = api.AssignReplicasToDirsResponse()
    for directory in request.directories:
        topics = []
        for topic in directory.topics:
            answers = []
            for partition in topic.partitions:
                number = partition.partition_index
                code, record = _assign(image, request.broker_id, directory.id, topic.topic_id, number)
                if record is not None:
                    records.append(record)
                answers.append(api.AssignReplicasToDirsResponse.PartitionData(partition_index=number, error_code=code))
            topics.append(api.AssignReplicasToDirsResponse.TopicData(topic_id=topic.topic_id, partitions=answers))
        response.directories.append(api.AssignReplicasToDirsResponse.DirectoryData(id=directory.id, topics=topics))
    return Decision(records=records, reply=response)


def _assign(
    image: MetadataImage, broker_id: NodeId, directory: UUID, topic_id: TopicId, number: int
) -> tuple[ErrorCode, MetadataRecord | None]:
    topic = image.topics_by_id.get(topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID, None
    partition = topic.partitions.get(number)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
    if broker_id not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER, None
    directories = list(partition.directories)
    at = partition.replicas.index(broker_id)
    if directories[at] == directory:
        return ErrorCode.NONE, None
    directories[at] = directory
    return ErrorCode.NONE, api.PartitionChangeRecord(partition_id=number, topic_id=topic_id, directories=directories)
