"""The partitions' side of transactions: WriteTxnMarkers v1–2, from coordinators and from an administrator's abort.

A marker for `__consumer_offsets` goes through the group coordinator, which alone appends there. Version 2 says whether
the marker's epoch is newer than the transaction's; an administrator's marker (KIP-664) has the epoch that hangs.
"""

import asyncio
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import TopicPartition
from ottla.broker.node import Node
from ottla.broker.request import Api, RequestContext
from ottla.coordinator.machine import Decision, ProducerIdentity
from ottla.coordinator.transactions.transaction import EPOCH_BUMPING_VERSION
from ottla.metadata.topic_names import GROUP_TOPIC, TRANSACTION_TOPIC
from ottla.replica.markers import append_marker
from ottla.replica.partition import Partition
from ottla.wire import api
from ottla.wire.apis import ApiKey

Marker = api.WriteTxnMarkersRequest.WritableTxnMarker
Result = api.WriteTxnMarkersResponse.WritableTxnMarkerResult
TopicResult = api.WriteTxnMarkersResponse.WritableTxnMarkerTopicResult
PartitionResult = api.WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult


async def write_txn_markers(
    node: Node, context: RequestContext, request: api.WriteTxnMarkersRequest
) -> api.WriteTxnMarkersResponse:
    places = [
        (marker, TopicPartition(topic.name, index))
        for marker in request.markers
        for topic in marker.topics
        for index in topic.partition_indexes
    ]
    codes = iter(await asyncio.gather(*(_write(node, marker, partition) for marker, partition in places)))
    return api.WriteTxnMarkersResponse(
        markers=[
            Result(
                producer_id=marker.producer_id,
                topics=[
                    TopicResult(
                        name=topic.name,
                        partitions=[
                            PartitionResult(partition_index=index, error_code=next(codes))
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


async def _write(node: Node, marker: Marker, place: TopicPartition) -> ErrorCode:
    try:
        partition = node.partitions.leader_of(*place)
        if place.topic == TRANSACTION_TOPIC:  # An administrator's mistake: only its coordinator appends there.
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if place.topic == GROUP_TOPIC:
            await _write_to_group(node, marker, partition)
        else:
            await append_marker(
                partition,
                marker.producer_id,
                marker.producer_epoch,
                is_commit=marker.transaction_result,
                coordinator_epoch=marker.coordinator_epoch,
                is_epoch_raised=_is_epoch_raised(marker),
                now_ms=node.clock.now_ms(),
            )
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


async def _write_to_group(node: Node, marker: Marker, partition: Partition) -> None:
    groups = node.coordinators.groups
    index = partition.topic_partition.partition
    partition.guards.void(marker.producer_id, marker.producer_epoch, is_epoch_raised=_is_epoch_raised(marker))
    # What was decided before is in the log then, and the log's word about the producer is the last one.
    await groups.submit(index, lambda machine: Decision((), None))
    is_new = partition.log.producer_state.check_marker(
        marker.producer_id,
        marker.producer_epoch,
        coordinator_epoch=marker.coordinator_epoch,
        is_epoch_raised=_is_epoch_raised(marker),
    )
    if is_new:
        await groups.append_marker(
            index,
            ProducerIdentity(marker.producer_id, marker.producer_epoch),
            is_commit=marker.transaction_result,
            coordinator_epoch=marker.coordinator_epoch,
        )


def _is_epoch_raised(marker: Marker) -> bool:
    return marker.transaction_version >= EPOCH_BUMPING_VERSION


APIS: Final[dict[int, Api]] = {ApiKey.WRITE_TXN_MARKERS: Api(versions=(1, 2), handle=write_txn_markers)}
