"""Readers: one that tails the log during a run, and one that reads all of it at the end."""

import threading
import time
from collections.abc import Iterable
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from tests.chaos.checker import Stored
from tests.chaos.payload import decode
from tests.chaos.writers import QUIET

READ_SECONDS_MAX: Final = 60.0
MESSAGES_PER_CALL: Final = 2_000
WAIT_SECONDS: Final = 0.1  # `consume` returns when it has all it was asked for, or after this.


def new_consumer(bootstrap: str, **settings: Any) -> Consumer:
    """Of assigned partitions, without a group; batches are checked by CRC."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "chaos",
            "enable.auto.commit": False,
            "check.crcs": True,
            "auto.offset.reset": "error",  # A position that the broker does not know must be seen, not skipped.
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 100,
            "fetch.error.backoff.ms": 20,
            "topic.metadata.refresh.interval.ms": 1_000,
            **QUIET,
            **settings,
        }
    )


def position_of(message: Message) -> tuple[int, int]:
    """Partition and offset of a message that was read."""
    partition, offset = message.partition(), message.offset()
    assert partition is not None and offset is not None
    return partition, offset


def stored_of(message: Message) -> Stored:
    offset = message.offset()
    assert offset is not None
    return Stored(offset, decode(message.value()))


def read_all(bootstrap: str, topic: str, partitions: Iterable[int]) -> dict[int, list[Stored]]:
    """Everything from offset 0 to the end, by partition, in the order in which it came."""
    consumer = new_consumer(bootstrap, **{"enable.partition.eof": True})
    logs: dict[int, list[Stored]] = {partition: [] for partition in partitions}
    unread = set(logs)
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in logs])
        deadline = time.monotonic() + READ_SECONDS_MAX
        while unread:
            assert time.monotonic() < deadline, f"{sorted(unread)} are not read to their end in {READ_SECONDS_MAX} s"
            for message in consumer.consume(MESSAGES_PER_CALL, WAIT_SECONDS):
                partition = message.partition()
                assert partition is not None
                if (error := message.error()) is None:
                    logs[partition].append(stored_of(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    unread.discard(partition)
                else:
                    raise AssertionError(f"{topic}-{partition}: {error.str()}")
        return logs
    finally:
        consumer.close()


def read_until_trouble(
    bootstrap: str, topic: str, partition: int, from_offset: int = 0
) -> tuple[list[Stored], KafkaError | None]:
    """What comes before the end of a partition, or before the first error, and that error."""
    consumer = new_consumer(bootstrap, **{"enable.partition.eof": True})
    found: list[Stored] = []
    try:
        consumer.assign([TopicPartition(topic, partition, from_offset)])
        deadline = time.monotonic() + READ_SECONDS_MAX
        while time.monotonic() < deadline:
            for message in consumer.consume(MESSAGES_PER_CALL, WAIT_SECONDS):
                error = message.error()
                if error is not None:
                    return found, None if error.code() == KafkaError._PARTITION_EOF else error
                found.append(stored_of(message))
        raise AssertionError(f"{topic}-{partition} is not read to its end in {READ_SECONDS_MAX} s")
    finally:
        consumer.close()


class Tail(threading.Thread):
    """Reads what is written while it is written, and keeps what it saw."""

    def __init__(self, *, bootstrap: str, topic: str, partitions: Iterable[int]) -> None:
        super().__init__(name="tail", daemon=True)
        self.seen: list[tuple[int, Stored]] = []
        self.errors: list[str] = []
        self._stopping = threading.Event()
        self._consumer = new_consumer(bootstrap)
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])

    def run(self) -> None:
        while not self._stopping.is_set():
            for message in self._consumer.consume(MESSAGES_PER_CALL, WAIT_SECONDS):
                if (error := message.error()) is not None:
                    self.errors.append(error.str())
                else:
                    partition = message.partition()
                    assert partition is not None
                    self.seen.append((partition, stored_of(message)))
        self._consumer.close()

    def stop(self) -> list[tuple[int, Stored]]:
        self._stopping.set()
        self.join(READ_SECONDS_MAX)
        assert not self.is_alive(), "the tail hangs"
        return self.seen

    def require_steady(self) -> None:
        """Every partition was read in order, each offset once (poll-skip and non-monotonic poll)."""
        next_offsets: dict[int, int] = {}
        for partition, (offset, _) in self.seen:
            assert offset == next_offsets.get(partition, 0), f"partition {partition}: read {offset} after a jump"
            next_offsets[partition] = offset + 1
        assert not self.errors, self.errors[:5]
