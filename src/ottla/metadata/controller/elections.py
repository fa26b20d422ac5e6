"""Elections that nobody's coming or going asks for: by an administrator, or because leaders are unevenly spread.

The preferred leader is the first replica; another that leads already makes room for it alone. A partition with the
leader it should have is left as it is: naming it again would start an epoch for nothing. An administrator's unclean
election takes any live replica where no other can lead, whatever the configuration says, and if need be one whose disk
was replaced; records may be lost.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NO_NODE
from ottla.metadata.controller.decision import RECORDS_PER_DECISION_MAX, Decision, too_large
from ottla.metadata.controller.electorate import (
    NO_LOG_ENDS,
    NO_STATIC_CONFIGS,
    NOTHING_SAID,
    Electorate,
    LogEnds,
    OfflineDirectories,
    StaticConfigs,
)
from ottla.metadata.controller.partition_changes import Election, change_record, changed_partition
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_parts import PartitionRef
from ottla.metadata.records import MetadataRecord
from ottla.wire import api

BALANCING_ELECTIONS_MAX: Final = 1000  # Clients look up their leaders anew: not all of them at one moment.


class ElectionType(IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


_ELECTIONS: Final = {ElectionType.PREFERRED: Election.PREFERRED, ElectionType.UNCLEAN: Election.LAST_RESORT}
_NOBODY_TO_ELECT: Final = {
    ElectionType.PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ElectionType.UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


def decide_elect_leaders(
    image: MetadataImage,
    request: api.ElectLeadersRequest,
    *,
    static_configs: StaticConfigs = NO_STATIC_CONFIGS,
    offline_directories: OfflineDirectories = NOTHING_SAID,
) -> Decision[api.ElectLeadersResponse]:
    """Asked about all partitions, it answers only for those that needed an election."""
    if request.election_type not in list(ElectionType):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}.")
    election_type = ElectionType(request.election_type)
    electorate = Electorate(image, static_configs, offline_directories=offline_directories)
    records: list[MetadataRecord] = []
    response = api.ElectLeadersResponse()
    for topic, numbers in _asked(image, request).items():
        results = []
        for number in numbers:
            result = api.ElectLeadersResponse.PartitionResult(partition_id=number, error_message=None)
            try:
                records.append(_elect(image, topic, number, electorate, election_type))
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


def decide_balance_leaders(image: MetadataImage, *, static_configs: StaticConfigs) -> Decision[bool]:
    """Back to the preferred leaders where they are in sync again (`auto.leader.rebalance.enable`). True: more is left."""
    electorate = Electorate(image, static_configs)
    records: list[MetadataRecord] = []
    for ref in image.partitions_unsettled():
        first = ref.partition.replicas[0]
        if (
            first == ref.partition.leader
            or first not in ref.partition.isr
            or not electorate.may_lead(ref.partition, first)
        ):
            continue
        if len(records) == BALANCING_ELECTIONS_MAX:
            return Decision(records=records, reply=True)
        after = changed_partition(ref, ref.partition, electorate, election=Election.PREFERRED)
        records.append(change_record(ref, after))
    return Decision(records=records, reply=False)


def decide_elect_where_leaderless(
    image: MetadataImage,
    *,
    static_configs: StaticConfigs,
    log_ends: LogEnds = NO_LOG_ENDS,
    offline_directories: OfflineDirectories = NOTHING_SAID,
) -> Decision[int]:
    """For a controller that takes over, when unclean elections are allowed, and now and then. Replies with their number.

    `log_ends`: for the partitions of `plan_log_comparison`.
    """
    electorate = Electorate(image, static_configs, log_ends=log_ends, offline_directories=offline_directories)
    records = [
        change_record(ref, after)
        for ref in image.partitions_without_leader()
        if (after := changed_partition(ref, ref.partition, electorate)).leader != NO_NODE
    ]
    return Decision(records=records, reply=len(records))


def _asked(image: MetadataImage, request: api.ElectLeadersRequest) -> dict[str, dict[int, None]]:
    """Each partition once: two records for it would be two epochs."""
    if request.topic_partitions is None:
        return {topic.name: dict.fromkeys(topic.partitions) for topic in image.topics.values()}
    asked: dict[str, dict[int, None]] = {}
    for topic in request.topic_partitions:
        asked.setdefault(topic.topic, {}).update(dict.fromkeys(topic.partitions))
    return asked


def _elect(
    image: MetadataImage, topic: str, number: int, electorate: Electorate, election_type: ElectionType
) -> MetadataRecord:
    ref = image.partition_of(topic, number)
    if ref is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {topic}-{number}.")
    leader = ref.partition.leader
    if _has_its_leader(ref, election_type):
        raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, f"Broker {leader} leads {ref} already.")
    after = changed_partition(ref, ref.partition, electorate, election=_ELECTIONS[election_type])
    if after.leader == leader:
        raise ApiError(
            _NOBODY_TO_ELECT[election_type],
            f"Of the replicas {list(ref.partition.replicas)} of {ref} none that may lead is alive.",
        )
    return change_record(ref, after)


def _has_its_leader(ref: PartitionRef, election_type: ElectionType) -> bool:
    leader = ref.partition.leader
    return leader == ref.partition.replicas[0] or (election_type is ElectionType.UNCLEAN and leader != NO_NODE)
