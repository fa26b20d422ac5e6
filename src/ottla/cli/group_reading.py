"""Reading as a member of a group: `ottla consume --group`. What was shown is committed, and nothing else.

Without `follow` a reading ends once every partition that the group gave to this member is read up to its end of that
moment, or nothing has come for a while: the last offsets of a partition may hold no records (transaction markers).
"""

import time
from collections.abc import Iterator
from typing import Final, Self

from ottla.base.types import TopicPartition
from ottla.cli.connection import Connection
from ottla.cli.record_format import ConsumedRecord
from ottla.client.consumer import Consumer
from ottla.client.records import ConsumerRecord, OffsetAndMetadata, TimestampType, position_after

POLL_MS: Final = 500
IDLE_S_MAX: Final = 3.0


class GroupReading:
    def __init__(self, connection: Connection, topic: str, group: str, *, reset: str, follow: bool) -> None:
        options = {"group.id": group, "auto.offset.reset": reset, "allow.auto.create.topics": False}
        self._consumer = Consumer(connection.options(options))
        self._follow = follow
        self._shown: dict[TopicPartition, OffsetAndMetadata] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._new: list[TopicPartition] = []
        self._consumer.subscribe(topic, on_assign=self._new.extend, on_revoke=self._on_revoke, on_lost=self._on_lost)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._commit()
        finally:
            self._consumer.close()

    def records(self) -> Iterator[ConsumerRecord]:
        idle_since = time.monotonic()
        while self._follow or not self._is_at_end(idle_s=time.monotonic() - idle_since):
            polled = self._consumer.poll(POLL_MS)
            if polled or self._new:
                idle_since = time.monotonic()
            yield from polled
            self._commit()

    def shown(self, record: ConsumerRecord) -> None:
        self._shown[record.topic_partition] = position_after(record)

    def _commit(self) -> None:
        if self._shown:
            self._consumer.commit(self._shown)
            self._shown.clear()

    def _is_at_end(self, *, idle_s: float) -> bool:
        if self._new:
            self._ends |= self._consumer.end_offsets(self._new)
            self._new.clear()
        if not self._ends:
            return False  # No partition yet: the group has not settled, or others have them all.
        return idle_s >= IDLE_S_MAX or all(self._consumer.position(each) >= end for each, end in self._ends.items())

    def _on_revoke(self, partitions: list[TopicPartition]) -> None:
        self._commit()
        self._on_lost(partitions)

    def _on_lost(self, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            self._shown.pop(partition, None)
            self._ends.pop(partition, None)
            if partition in self._new:
                self._new.remove(partition)


def consumed(record: ConsumerRecord) -> ConsumedRecord:
    has_time = record.timestamp_type is not TimestampType.NOT_AVAILABLE
    return ConsumedRecord(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp if has_time else None,
        record.key,
        record.value,
        record.headers,
    )
