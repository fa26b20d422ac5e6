"""Between our offsets (partition → position) and librdkafka's list of TopicPartition."""

from collections.abc import Iterable, Mapping
from typing import Any

import confluent_kafka

from ottla.base.types import NO_EPOCH, TopicPartition
from ottla.client.records import OffsetAndMetadata, Offsets


def librdkafka_offsets(offsets: Offsets) -> list[confluent_kafka.TopicPartition]:
    return [librdkafka_offset(partition, position) for partition, position in offsets.items()]


def librdkafka_offset(partition: TopicPartition, given: int | OffsetAndMetadata) -> confluent_kafka.TopicPartition:
    position = OffsetAndMetadata(given) if isinstance(given, int) else given
    optional: dict[str, Any] = {}  # librdkafka's class takes no None for these
    if position.metadata:
        optional["metadata"] = position.metadata
    if position.leader_epoch != NO_EPOCH:
        optional["leader_epoch"] = position.leader_epoch
    return confluent_kafka.TopicPartition(partition[0], partition[1], position.offset, **optional)


def librdkafka_partitions(
    partitions: Iterable[TopicPartition], offset: int = confluent_kafka.OFFSET_INVALID
) -> list[confluent_kafka.TopicPartition]:
    return [confluent_kafka.TopicPartition(topic, partition, offset) for topic, partition in partitions]


def positions(listed: Iterable[confluent_kafka.TopicPartition]) -> Mapping[TopicPartition, OffsetAndMetadata | None]:
    """Back again; a negative offset means that there is none."""
    return {
        TopicPartition(given.topic, given.partition): None
        if given.offset < 0
        else OffsetAndMetadata(given.offset, given.metadata or "", epoch_of(given))
        for given in listed
    }


def epoch_of(given: confluent_kafka.TopicPartition) -> int:
    return NO_EPOCH if given.leader_epoch is None else given.leader_epoch
