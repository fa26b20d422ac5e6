"""Reading a topic's partitions by assignment: from where to where, and the records between.

Without `follow` a reading ends at the end offsets of the moment it was planned, so it ends even while producers go on.
librdkafka wants a `group.id` of every consumer; nothing is ever committed to it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, assert_never

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from ottla.base.types import TopicPartition
from ottla.cli import topic_state
from ottla.cli.connection import Connection
from ottla.cli.errors import Failure, no_answer
from ottla.cli.record_format import ConsumedRecord, consumed_record
from ottla.cli.start_position import AtOffset, AtTime, Beginning, End, StartPosition
from ottla.cli.topic_state import PartitionState
from ottla.client.admin import Admin

MESSAGES_PER_CALL: Final = 500
POLL_SLICE_S: Final = 0.2
SILENT_SLICES_MAX: Final = 150  # Half a minute without a record or an end: nobody is answering.

CONSUMER_OPTIONS: Final[dict[str, Any]] = {
    "group.id": "ottla-cli",
    "enable.partition.eof": True,
    "allow.auto.create.topics": False,
    # Retention may delete the start between planning and reading; what is left is still wanted.
    "auto.offset.reset": "earliest",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """Records of one partition from `start` up to but not including `end`."""

    partition: int
    start: int
    end: int


def plan_ranges(admin: Admin, topic: str, *, partition: int | None, start: StartPosition) -> list[OffsetRange]:
    [state] = topic_state.with_offsets(admin, topic_state.describe(admin, [topic]))
    wanted = [each for each in state.partitions if partition is None or each.partition == partition]
    if not wanted:
        raise Failure(f"{topic} has no partition {partition}: it has 0 to {len(state.partitions) - 1}")
    leaderless = [each.partition for each in wanted if each.end_offset is None]
    if leaderless:
        raise Failure(f"{topic}: no leader answers for partitions {leaderless}; --partition reads the others")
    starts = start_offsets(admin, topic, wanted, start)
    return [
        OffsetRange(partition=each.partition, start=starts[each.partition], end=each.end_offset or 0) for each in wanted
    ]


def start_offsets(
    admin: Admin, topic: str, partitions: Sequence[PartitionState], start: StartPosition
) -> dict[int, int]:
    match start:
        case Beginning():
            return {each.partition: each.start_offset or 0 for each in partitions}
        case End():
            return {each.partition: each.end_offset or 0 for each in partitions}
        case AtOffset(offset):
            return {
                each.partition: min(max(offset, each.start_offset or 0), each.end_offset or 0) for each in partitions
            }
        case AtTime(timestamp_ms):
            where = {each.partition: TopicPartition(topic, each.partition) for each in partitions}
            found = topic_state.offsets_at(admin, list(where.values()), timestamp_ms)
            return {each.partition: offset_or_end(found[where[each.partition]], each) for each in partitions}
        case _:
            assert_never(start)


def offset_or_end(offset: int, partition: PartitionState) -> int:
    """-1 says that no record is that young: then whatever comes next is the first."""
    return offset if offset >= 0 else partition.end_offset or 0


def tail_ranges(ranges: Sequence[OffsetRange], count: int) -> list[OffsetRange]:
    """Enough of each partition to hold the topic's last `count` records, wherever they are."""
    return [replace(each, start=max(each.start, each.end - count)) for each in ranges]


def last_records(records: Iterator[ConsumedRecord], count: int) -> list[ConsumedRecord]:
    """The last by timestamp: partitions have no order among each other."""
    by_time = sorted(records, key=lambda record: (record.timestamp_ms or 0, record.partition, record.offset))
    return by_time[-count:]


def read(
    connection: Connection, topic: str, ranges: Sequence[OffsetRange], *, follow: bool
) -> Iterator[ConsumedRecord]:
    """Records of the ranges as they come; with `follow` it goes on past their ends for ever."""
    unfinished = {each.partition: each.end for each in ranges if follow or each.start < each.end}
    if not unfinished:
        return
    consumer = connection.consumer(CONSUMER_OPTIONS)
    chosen = [each for each in ranges if each.partition in unfinished]
    consumer.assign([confluent_kafka.TopicPartition(topic, each.partition, each.start) for each in chosen])
    try:
        polls = poll_forever(consumer)
        yield from follow_records(polls) if follow else bounded_records(polls, unfinished, connection)
    finally:
        consumer.close()


def poll_forever(consumer: Consumer) -> Iterator[list[Message]]:
    """What is there, again and again; an empty list after a while of nothing."""
    while True:
        # One message is waited for, the others taken as they are: `consume` alone would wait until its list is full.
        first = consumer.poll(POLL_SLICE_S)
        yield [] if first is None else [first, *consumer.consume(MESSAGES_PER_CALL, 0)]


def follow_records(polls: Iterator[list[Message]]) -> Iterator[ConsumedRecord]:
    for messages in polls:
        for message in messages:
            if not is_end(message.error()):
                yield consumed_record(message)


def bounded_records(
    polls: Iterator[list[Message]], unfinished: dict[int, int], connection: Connection
) -> Iterator[ConsumedRecord]:
    """`unfinished` maps each partition to its end and is emptied on the way."""
    silent_slices = 0
    while unfinished:
        messages = next(polls)
        silent_slices = 0 if messages else silent_slices + 1
        if silent_slices > SILENT_SLICES_MAX:
            raise no_answer(connection.servers)
        for message in messages:
            partition = message.partition() or 0
            if partition not in unfinished:
                continue
            if is_end(message.error()):  # Before the planned end where the last offsets hold no records.
                del unfinished[partition]
                continue
            record = consumed_record(message)
            end = unfinished[partition]
            if record.offset + 1 >= end:
                del unfinished[partition]
            if record.offset < end:
                yield record


def is_end(error: KafkaError | None) -> bool:
    """True for "no more records now", False for a record. Anything else raises."""
    if error is None:
        return False
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    raise KafkaException(error)
