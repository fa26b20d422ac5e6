"""Replicas of new partitions as records: placed by us or checked as the client gave them.

Shared by the creation of topics and of further partitions. The first usable replica leads and the usable ones are the
first ISR; a broker with one log directory gets the partition there, one with several chooses itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NodeId, TopicId
from ottla.metadata.controller.electorate import default_directory
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_parts import BrokerImage
from ottla.metadata.placement import Candidate, place_replicas
from ottla.wire import api


def place(
    image: MetadataImage, topic_id: TopicId, *, partition_count: int, replication_factor: int, first_partition: int = 0
) -> list[tuple[NodeId, ...]]:
    candidates = [_candidate(broker) for broker in image.brokers.values()]
    if replication_factor > len(candidates):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor of {replication_factor} cannot be reached because only {len(candidates)} "
            "broker(s) are registered.",
        )
    if not any(candidate.usable for candidate in candidates):
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, "All brokers are fenced or shutting down.")
    return place_replicas(
        candidates,
        partition_count=partition_count,
        replication_factor=replication_factor,
        # Topic ids are random, so that the first leaders of many small topics do not meet on one broker.
        start=topic_id.int % len(candidates),
        first_partition=first_partition,
    )


def check_assignment(
    image: MetadataImage, partition: int, replicas: Sequence[NodeId], replication_factor: int | None
) -> None:
    """Raises INVALID_REPLICA_ASSIGNMENT unless `replicas` is a list that this cluster can have."""
    reason = None
    if not replicas:
        reason = "it has an empty replica list"
    elif len(set(replicas)) != len(replicas):
        reason = "it names a broker twice"
    elif replication_factor is not None and len(replicas) != replication_factor:
        reason = f"it has {len(replicas)} replica(s) where other partitions have {replication_factor}"
    elif unknown := [broker for broker in replicas if broker not in image.brokers]:
        reason = f"broker {unknown[0]} is not registered"
    elif not any(image.brokers[broker].is_active for broker in replicas):
        reason = "all its brokers are fenced or shutting down"
    if reason is not None:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Invalid manual assignment of partition {partition}: {reason}.",
        )


def partition_record(
    image: MetadataImage, topic_id: TopicId, partition: int, replicas: Sequence[NodeId]
) -> api.PartitionRecord:
    isr = [broker for broker in replicas if image.brokers[broker].is_active]
    return api.PartitionRecord(
        partition_id=partition,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=[default_directory(image.brokers[broker]) for broker in replicas],
    )


def _candidate(broker: BrokerImage) -> Candidate:
    # Two brokers that advertise one address are on one machine.
    host = broker.endpoints[0].host if broker.endpoints else str(broker.id)
    return Candidate(broker.id, broker.rack, host, broker.is_active)
