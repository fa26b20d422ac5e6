"""The coordinator's side of transactions: AddPartitionsToTxn v0–5, AddOffsetsToTxn v0–4, EndTxn v0–5.

Partitions are added by producers (v0–3) or by the leaders that the producers write to (v4+, several transactions in one
request, or only verified). EndTxn answers once the decision is committed, and waits a moment for the markers: what is
committed is then visible, and the next transaction need not wait for this one.
"""

from collections.abc import Iterable
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import TopicPartition
from ottla.broker.node import Node
from ottla.broker.request import Api, RequestContext
from ottla.coordinator.machine import ProducerIdentity
from ottla.coordinator.transactions.requests import EndTransaction
from ottla.coordinator.transactions.transaction import EPOCH_BUMPING_VERSION
from ottla.metadata.topic_names import GROUP_TOPIC, INTERNAL_TOPICS
from ottla.wire import api
from ottla.wire.apis import ApiKey

BATCHED_FROM: Final = 4
END_BUMPS_EPOCH_FROM: Final = 5
FENCED_FROM: Final = 2  # Before it, a producer knows only INVALID_PRODUCER_EPOCH.

TopicResult = api.AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
PartitionResult = api.AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult


# -- adding -----------------------------------------------------------------------------------------------------------


async def add_partitions_to_txn(
    node: Node, context: RequestContext, request: api.AddPartitionsToTxnRequest
) -> api.AddPartitionsToTxnResponse:
    if context.api_version < BATCHED_FROM:
        producer = ProducerIdentity(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        partitions = _partitions(request.v3_and_below_topics)
        outcomes = _forbidden(node, partitions) or await _add(
            node, request.v3_and_below_transactional_id, producer, partitions
        )
        for partition, code in outcomes.items():
            outcomes[partition] = _for_version(code, context.api_version)
        return api.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(outcomes))
    response = api.AddPartitionsToTxnResponse()
    for one in request.transactions:
        producer = ProducerIdentity(one.producer_id, one.producer_epoch)
        partitions = _partitions(one.topics)
        if one.verify_only:
            outcomes = await _verify(node, one.transactional_id, producer, partitions)
        else:
            outcomes = await _add_when_free(node, one.transactional_id, producer, partitions)
        response.results_by_transaction.append(
            api.AddPartitionsToTxnResponse.AddPartitionsToTxnResult(
                transactional_id=one.transactional_id, topic_results=_results(outcomes)
            )
        )
    return response


Outcomes = dict[TopicPartition, ErrorCode]


def _forbidden(node: Node, partitions: list[TopicPartition]) -> Outcomes | None:
    """Internal topics are no producer's to name: a group's offsets have a request of their own."""
    if not any(one.topic in INTERNAL_TOPICS for one in partitions):
        return None
    return _not_attempted(node, partitions) | {
        one: ErrorCode.TOPIC_AUTHORIZATION_FAILED for one in partitions if one.topic in INTERNAL_TOPICS
    }


def _not_attempted(node: Node, partitions: list[TopicPartition]) -> Outcomes:
    return {
        one: ErrorCode.OPERATION_NOT_ATTEMPTED if _exists(node, one) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for one in partitions
    }


async def _add(
    node: Node, transactional_id: str, producer: ProducerIdentity, partitions: list[TopicPartition]
) -> Outcomes:
    if not all(_exists(node, one) for one in partitions):
        return _not_attempted(node, partitions)
    try:
        await _submit_add(node, transactional_id, producer, partitions)
    except ApiError as error:
        return dict.fromkeys(partitions, error.code)
    return dict.fromkeys(partitions, ErrorCode.NONE)


async def _add_when_free(
    node: Node, transactional_id: str, producer: ProducerIdentity, partitions: list[TopicPartition]
) -> Outcomes:
    """The producer has been told that its last transaction is decided. Its markers are a moment away: rather than
    having it come again, it is kept waiting."""
    outcomes = await _add(node, transactional_id, producer, partitions)
    if ErrorCode.CONCURRENT_TRANSACTIONS in outcomes.values():
        await node.transactions.wait_finished(transactional_id)
        outcomes = await _add(node, transactional_id, producer, partitions)
    return outcomes


async def _submit_add(
    node: Node, transactional_id: str, producer: ProducerIdentity, partitions: list[TopicPartition]
) -> None:
    now_ms = node.clock.now_ms()
    await node.transactions.submit(
        transactional_id, lambda machine: machine.decide_add(transactional_id, producer, partitions, now_ms)
    )


async def _verify(
    node: Node, transactional_id: str, producer: ProducerIdentity, partitions: list[TopicPartition]
) -> Outcomes:
    try:
        members = await node.transactions.submit(
            transactional_id, lambda machine: machine.verify(transactional_id, producer)
        )
    except ApiError as error:
        return dict.fromkeys(partitions, error.code)
    return {one: ErrorCode.NONE if one in members else ErrorCode.TRANSACTION_ABORTABLE for one in partitions}


async def add_offsets_to_txn(
    node: Node, context: RequestContext, request: api.AddOffsetsToTxnRequest
) -> api.AddOffsetsToTxnResponse:
    """The partition that keeps the group's offsets becomes part of the transaction."""
    try:
        await node.coordinators.find(GROUP_TOPIC, request.group_id)
        partition = TopicPartition(GROUP_TOPIC, node.coordinators.group_partition(request.group_id))
        producer = ProducerIdentity(request.producer_id, request.producer_epoch)
        await _submit_add(node, request.transactional_id, producer, [partition])
    except ApiError as error:
        return api.AddOffsetsToTxnResponse(error_code=_for_version(error.code, context.api_version))
    return api.AddOffsetsToTxnResponse()


# -- ending -----------------------------------------------------------------------------------------------------------


async def end_txn(node: Node, context: RequestContext, request: api.EndTxnRequest) -> api.EndTxnResponse:
    wish = EndTransaction(
        transactional_id=request.transactional_id,
        producer=ProducerIdentity(request.producer_id, request.producer_epoch),
        is_commit=request.committed,
        client_version=EPOCH_BUMPING_VERSION if context.api_version >= END_BUMPS_EPOCH_FROM else 0,
    )
    now_ms = node.clock.now_ms()
    try:
        ended = await node.transactions.change(
            request.transactional_id, lambda machine, producer_id: machine.decide_end(wish, producer_id, now_ms)
        )
    except ApiError as error:
        return api.EndTxnResponse(error_code=_for_version(error.code, context.api_version))
    await node.transactions.wait_finished(request.transactional_id)
    return api.EndTxnResponse(producer_id=ended.client.producer_id, producer_epoch=ended.client.epoch)


# -- words ------------------------------------------------------------------------------------------------------------


def _exists(node: Node, partition: TopicPartition) -> bool:
    topic = node.image.topics.get(partition.topic)
    return topic is not None and partition.partition in topic.partitions


def _for_version(code: ErrorCode, api_version: int) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED and api_version < FENCED_FROM:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def _partitions(topics: Iterable[api.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]


def _results(outcomes: Outcomes) -> list[TopicResult]:
    topics: dict[str, list[PartitionResult]] = {}
    for (name, index), code in outcomes.items():
        topics.setdefault(name, []).append(PartitionResult(partition_index=index, partition_error_code=code))
    return [TopicResult(name=name, results_by_partition=results) for name, results in topics.items()]


APIS: Final[dict[int, Api]] = {
    ApiKey.ADD_PARTITIONS_TO_TXN: Api(versions=(0, 5), handle=add_partitions_to_txn),
    ApiKey.ADD_OFFSETS_TO_TXN: Api(versions=(0, 4), handle=add_offsets_to_txn),
    ApiKey.END_TXN: Api(versions=(0, 5), handle=end_txn),
}
