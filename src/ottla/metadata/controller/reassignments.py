"""Reassignments: replicas move from brokers to brokers, more are added or some taken away. KIP-455, KIP-860.

While a partition moves, its replicas are the wanted ones followed by those on their way out; it is done when every
added one is in sync (`partition_changes`). A further request starts from the replicas before the first one: what the
first one was adding and the second does not want is dropped. No replicas at all cancels: back to those before.

A request that would drop in-sync replicas at once, and so leave a committed record with fewer copies than
`min.insync.replicas` promises, is refused; it can be made again when others have caught up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NodeId
from ottla.metadata.controller.assignments import check_assignment
from ottla.metadata.controller.decision import RECORDS_PER_DECISION_MAX, Decision, too_large
from ottla.metadata.controller.electorate import Electorate, StaticConfigs
from ottla.metadata.controller.partition_changes import change_record, changed_partition
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_parts import PartitionImage, PartitionRef, without
from ottla.metadata.records import MetadataRecord
from ottla.wire import api


def decide_alter_reassignments(
    image: MetadataImage, request: api.AlterPartitionReassignmentsRequest, *, static_configs: StaticConfigs
) -> Decision[api.AlterPartitionReassignmentsResponse]:
    electorate = Electorate(image, static_configs)
    records: dict[tuple[str, int], MetadataRecord | None] = {}
    response = api.AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, error_message=None
    )
    for topic in request.topics:
        answers = []
        for wanted in topic.partitions:
            answer = api.AlterPartitionReassignmentsResponse.ReassignablePartitionResponse(
                partition_index=wanted.partition_index, error_message=None
            )
            key = (topic.name, wanted.partition_index)
            try:
                if key in records:
                    raise ApiError(ErrorCode.INVALID_REQUEST, "The partition is named twice in the request.")
                ref = _find(image, *key)
                asked = _asked(image, ref, wanted.replicas, request.allow_replication_factor_change)
                _check_copies(ref, asked, electorate)
                records[key] = change_record(ref, changed_partition(ref, asked, electorate))
            except ApiError as error:
                answer.error_code, answer.error_message = error.code, error.message
            answers.append(answer)
        response.responses.append(
            api.AlterPartitionReassignmentsResponse.ReassignableTopicResponse(name=topic.name, partitions=answers)
        )
    if len(records) > RECORDS_PER_DECISION_MAX:
        raise too_large()
    return Decision(records=[record for record in records.values() if record is not None], reply=response)


def decide_list_reassignments(
    image: MetadataImage, request: api.ListPartitionReassignmentsRequest
) -> Decision[api.ListPartitionReassignmentsResponse]:
    """Changes nothing. What does not exist is not under way, and so it is left out, as in Kafka."""
    response = api.ListPartitionReassignmentsResponse(error_message=None)
    topics: dict[str, api.ListPartitionReassignmentsResponse.OngoingTopicReassignment] = {}
    for ref in _moving(image, request):
        topic = topics.get(ref.topic.name)
        if topic is None:
            topic = topics[ref.topic.name] = api.ListPartitionReassignmentsResponse.OngoingTopicReassignment(
                name=ref.topic.name
            )
        topic.partitions.append(
            api.ListPartitionReassignmentsResponse.OngoingPartitionReassignment(
                partition_index=ref.number,
                replicas=list(ref.partition.replicas),
                adding_replicas=list(ref.partition.adding_replicas),
                removing_replicas=list(ref.partition.removing_replicas),
            )
        )
    response.topics = list(topics.values())
    return Decision(records=[], reply=response)


def _moving(image: MetadataImage, request: api.ListPartitionReassignmentsRequest) -> Iterable[PartitionRef]:
    if request.topics is None:
        return (ref for ref in image.partitions_unsettled() if ref.partition.is_moving)
    asked = (image.partition_of(topic.name, number) for topic in request.topics for number in topic.partition_indexes)
    return (ref for ref in asked if ref is not None and ref.partition.is_moving)


def _find(image: MetadataImage, topic: str, number: int) -> PartitionRef:
    ref = image.partition_of(topic, number)
    if ref is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {topic}-{number}.")
    return ref


def _asked(
    image: MetadataImage, ref: PartitionRef, wanted: Sequence[NodeId] | None, may_change_factor: bool
) -> PartitionImage:
    partition = ref.partition
    if wanted is None:
        if not partition.is_moving:
            raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"No reassignment of {ref} is in progress.")
        return _moved(partition, partition.original_replicas)
    check_assignment(image, ref.number, wanted, replication_factor=None)
    if not may_change_factor and len(wanted) != len(partition.target_replicas):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{ref} has {len(partition.target_replicas)} replica(s); the request forbids to change that.",
        )
    return _moved(partition, tuple(wanted))


def _moved(partition: PartitionImage, wanted: tuple[NodeId, ...]) -> PartitionImage:
    original = partition.original_replicas
    replicas = (*wanted, *without(original, wanted))
    return partition._replace(
        replicas=replicas,
        isr=tuple(replica for replica in partition.isr if replica in replicas),
        adding_replicas=without(wanted, original),
        removing_replicas=without(original, wanted),
    )


def _check_copies(ref: PartitionRef, asked: PartitionImage, electorate: Electorate) -> None:
    """Dropped are those that an earlier request was adding, in sync by now or not."""
    partition, rules = ref.partition, electorate.rules(ref.topic, asked)
    holders = (*partition.isr, *partition.eligible_leader_replicas, *partition.last_known_elr)
    kept = [one for one in asked.replicas if one in holders]
    if len(kept) < min(len(set(holders)), rules.min_isr) and not rules.unclean_elections:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Of the replicas of {ref} that may hold its committed records only {kept} would be left, and "
            f"{rules.min_isr} are needed. Try again when more of {list(asked.replicas)} are in sync.",
        )
