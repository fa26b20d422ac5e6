"""AlterPartition: a leader proposes another ISR for partitions that it leads. Outcomes are per partition.

The leader's word counts while its leader epoch and partition epoch are the present ones; a replica enters the ISR only
if its broker is active under the very epoch with which it fetched (KIP-841, KIP-903). The proposal may complete a
reassignment, and that may end the leadership of who made it: NEW_LEADER_ELECTED.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NodeId, TopicId
from ottla.metadata.controller.brokers import registered_broker
from ottla.metadata.controller.decision import Decision
from ottla.metadata.controller.electorate import Electorate, StaticConfigs
from ottla.metadata.controller.partition_changes import RecoveryState, change_record, changed_partition
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_parts import PartitionImage, PartitionRef
from ottla.metadata.records import MetadataRecord
from ottla.wire import api

_ANY_EPOCH: Final = -1


def decide_alter_partition(
    image: MetadataImage,
    request: api.AlterPartitionRequest,
    *,
    static_configs: StaticConfigs,
    refusing: Collection[NodeId] = (),
) -> Decision[api.AlterPartitionResponse]:
    """STALE_BROKER_EPOCH for the whole request of a broker that has been replaced.

    `refusing`: brokers that take no writes, which stay outside.
    """
    registered_broker(image, request.broker_id, request.broker_epoch)
    electorate = Electorate(image, static_configs)
    records: list[MetadataRecord] = []
    decided: set[tuple[TopicId, int]] = set()
    response = api.AlterPartitionResponse()
    for topic in request.topics:
        answers = []
        for proposal in topic.partitions:
            answer = api.AlterPartitionResponse.PartitionData(partition_index=proposal.partition_index)
            try:
                ref = _find(image, topic.topic_id, proposal.partition_index)
                _check_epochs(ref, request.broker_id, proposal)
                _check_proposal(image, ref, proposal)
                if (topic.topic_id, ref.number) in decided:
                    raise _refusal(ErrorCode.INVALID_UPDATE_VERSION, ref, "is in the request twice")
                decided.add((topic.topic_id, ref.number))
                records += _alter(ref, proposal, electorate, answer, refusing)
            except ApiError as error:
                answer.error_code = error.code
            answers.append(answer)
        response.topics.append(api.AlterPartitionResponse.TopicData(topic_id=topic.topic_id, partitions=answers))
    return Decision(records=records, reply=response)


def _find(image: MetadataImage, topic_id: TopicId, number: int) -> PartitionRef:
    topic = image.topics_by_id.get(topic_id)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, f"No topic has the id {topic_id}.")
    partition = topic.partitions.get(number)
    if partition is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {topic.name}-{number}.")
    return PartitionRef(topic, number, partition)


def _check_epochs(ref: PartitionRef, broker_id: NodeId, proposal: api.AlterPartitionRequest.PartitionData) -> None:
    partition = ref.partition
    if proposal.leader_epoch > partition.leader_epoch or proposal.partition_epoch > partition.partition_epoch:
        # The leader knows more than we: another controller must have told it.
        raise _refusal(ErrorCode.NOT_CONTROLLER, ref, "is known to the leader with a newer epoch than here")
    if proposal.leader_epoch < partition.leader_epoch:
        raise _refusal(ErrorCode.FENCED_LEADER_EPOCH, ref, f"has leader epoch {partition.leader_epoch}")
    if broker_id != partition.leader:
        raise _refusal(ErrorCode.INVALID_REQUEST, ref, f"is led by {partition.leader}")
    if proposal.partition_epoch < partition.partition_epoch:
        raise _refusal(ErrorCode.INVALID_UPDATE_VERSION, ref, f"has partition epoch {partition.partition_epoch}")


def _check_proposal(image: MetadataImage, ref: PartitionRef, proposal: api.AlterPartitionRequest.PartitionData) -> None:
    partition, members = ref.partition, _proposed_isr(proposal)
    isr = [broker_id for broker_id, _ in members]
    if len(set(isr)) < len(isr) or not set(isr) <= set(partition.replicas):
        raise _refusal(ErrorCode.INVALID_REQUEST, ref, f"cannot have the ISR {isr}")
    if partition.leader not in isr:
        raise _refusal(ErrorCode.INVALID_REQUEST, ref, f"is led by {partition.leader}, which the ISR leaves out")
    if proposal.leader_recovery_state not in list(RecoveryState):
        raise _refusal(ErrorCode.INVALID_REQUEST, ref, f"has no recovery state {proposal.leader_recovery_state}")
    is_recovering = proposal.leader_recovery_state == RecoveryState.RECOVERING
    if is_recovering and (len(members) > 1 or partition.leader_recovery_state == RecoveryState.RECOVERED):
        raise _refusal(ErrorCode.INVALID_REQUEST, ref, "cannot be recovering")
    for broker_id, broker_epoch in members:
        broker = image.brokers.get(broker_id)
        if broker is None or not broker.is_active or broker_epoch not in (broker.epoch, _ANY_EPOCH):
            raise _refusal(ErrorCode.INELIGIBLE_REPLICA, ref, f"cannot have broker {broker_id} in its ISR")


def _alter(
    ref: PartitionRef,
    proposal: api.AlterPartitionRequest.PartitionData,
    electorate: Electorate,
    answer: api.AlterPartitionResponse.PartitionData,
    refusing: Collection[NodeId],
) -> Iterable[MetadataRecord]:
    """The record, if anything changes; fills in `answer`."""
    # Who has all there is and could not take the next record would be thrown out again at once.
    fit = [one for one, _ in _proposed_isr(proposal) if one in ref.partition.isr or one not in refusing]
    asked = ref.partition._replace(
        isr=tuple(fit),
        leader_recovery_state=proposal.leader_recovery_state,
    )
    after = changed_partition(ref, asked, electorate)
    record = change_record(ref, after)
    if after.leader != ref.partition.leader:
        answer.error_code = ErrorCode.NEW_LEADER_ELECTED
    else:
        _describe(after, answer, partition_epoch=ref.partition.partition_epoch + (record is not None))
    return () if record is None else (record,)


def _describe(
    partition: PartitionImage, answer: api.AlterPartitionResponse.PartitionData, *, partition_epoch: int
) -> None:
    answer.leader_id, answer.leader_epoch = partition.leader, partition.leader_epoch
    answer.isr, answer.partition_epoch = list(partition.isr), partition_epoch
    answer.leader_recovery_state = partition.leader_recovery_state


def _proposed_isr(proposal: api.AlterPartitionRequest.PartitionData) -> list[tuple[NodeId, int]]:
    """With the broker epochs; version 2 has none."""
    if proposal.new_isr:
        return [(broker_id, _ANY_EPOCH) for broker_id in proposal.new_isr]
    return [(member.broker_id, member.broker_epoch) for member in proposal.new_isr_with_epochs]


def _refusal(code: ErrorCode, ref: PartitionRef, reason: str) -> ApiError:
    return ApiError(code, f"{ref} {reason}.")
