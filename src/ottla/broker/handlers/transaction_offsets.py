"""TxnOffsetCommit v0–5: a group's offsets that count once a transaction commits (KIP-98, KIP-447).

The group's partition is part of the transaction like any other: announced by the producer (AddOffsetsToTxn) and verified
here before v5, added here from v5 on.
"""

from collections.abc import Callable, Iterable
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NO_SEQUENCE, TopicPartition
from ottla.broker.node import Node
from ottla.broker.request import Api, RequestContext
from ottla.broker.verification import TransactionalProducer
from ottla.coordinator.machine import ProducerIdentity
from ottla.metadata.image import MetadataImage
from ottla.metadata.topic_names import GROUP_TOPIC
from ottla.wire import api
from ottla.wire.apis import ApiKey

ADDS_PARTITION_FROM: Final = 5
ABORTABLE_ERROR_FROM: Final = 4

AskedTopic = api.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
TopicAnswer = api.TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
PartitionAnswer = api.TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition


async def txn_offset_commit(
    node: Node, context: RequestContext, request: api.TxnOffsetCommitRequest
) -> api.TxnOffsetCommitResponse:
    """Only for topics and partitions that there are; the others are refused beside them."""
    asked, request.topics = request.topics, _existing(node.image, request.topics)
    answer = await _commit(node, context, request) if request.topics else api.TxnOffsetCommitResponse()
    codes = {(topic.name, one.partition_index): one.error_code for topic in answer.topics for one in topic.partitions}
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return _answer(asked, lambda name, index: codes.get((name, index), unknown))


def _existing(image: MetadataImage, topics: list[AskedTopic]) -> list[AskedTopic]:
    existing: list[AskedTopic] = []
    for topic in topics:
        found = image.topics.get(topic.name)
        there = [one for one in topic.partitions if found is not None and one.partition_index in found.partitions]
        if there:
            existing.append(AskedTopic(name=topic.name, partitions=there))
    return existing


async def _commit(
    node: Node, context: RequestContext, request: api.TxnOffsetCommitRequest
) -> api.TxnOffsetCommitResponse:
    try:
        index = await node.coordinators.wait_group_partition(request.group_id)
        await _enter_transaction(node, request, index, adds_partition=context.api_version >= ADDS_PARTITION_FROM)
        now_ms = node.clock.now_ms()
        return await node.coordinators.groups.submit(
            index, lambda machine: machine.decide_transactional_commit(request, now_ms)
        )
    except ApiError as error:
        code = _for_producer(error.code, context.api_version)
        return _answer(request.topics, lambda name, index: code)


async def _enter_transaction(
    node: Node, request: api.TxnOffsetCommitRequest, index: int, *, adds_partition: bool
) -> None:
    """Nothing is awaited between this and the decision: a marker cannot come in between."""
    partition = node.partitions.leader_of(GROUP_TOPIC, index)
    producer = TransactionalProducer(
        request.transactional_id, ProducerIdentity(request.producer_id, request.producer_epoch), adds_partition
    )
    # Always asked, even if the partition has the transaction open: its marker may already wait to be written there.
    guard = partition.guards.enter(*producer.identity, NO_SEQUENCE)
    await node.verification.verify(TopicPartition(GROUP_TOPIC, index), producer)
    known = partition.log.producer_state.producers.get(request.producer_id)
    partition.guards.check(guard, request.producer_id, NO_SEQUENCE, known)


def _for_producer(code: ErrorCode, api_version: int) -> ErrorCode:
    match code:
        case ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        case ErrorCode.NETWORK_EXCEPTION | ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # It passes, and every client tries again.
        case ErrorCode.NOT_LEADER_OR_FOLLOWER | ErrorCode.KAFKA_STORAGE_ERROR:
            return ErrorCode.NOT_COORDINATOR  # Only this makes a client look for the group's coordinator again.
        case ErrorCode.CONCURRENT_TRANSACTIONS if api_version < ADDS_PARTITION_FROM:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        case ErrorCode.TRANSACTION_ABORTABLE if api_version < ABORTABLE_ERROR_FROM:
            return ErrorCode.INVALID_TXN_STATE
    return code


def _answer(topics: Iterable[AskedTopic], code_of: Callable[[str, int], int]) -> api.TxnOffsetCommitResponse:
    return api.TxnOffsetCommitResponse(
        topics=[
            TopicAnswer(
                name=topic.name,
                partitions=[
                    PartitionAnswer(
                        partition_index=one.partition_index, error_code=code_of(topic.name, one.partition_index)
                    )
                    for one in topic.partitions
                ],
            )
            for topic in topics
        ]
    )


APIS: Final[dict[int, Api]] = {ApiKey.TXN_OFFSET_COMMIT: Api(versions=(0, 5), handle=txn_offset_commit)}
