"""Readers of what transforming workers wrote: read_committed, at the end and meanwhile."""

import threading
import time
from collections.abc import Iterable
from typing import Final

from confluent_kafka import KafkaError, Message, TopicPartition

from tests.chaos.outputs import decode_output
from tests.chaos.readers import MESSAGES_PER_CALL, READ_SECONDS_MAX, WAIT_SECONDS, new_consumer
from tests.chaos.transform_checker import OutputPartition, StoredOutput

READ_COMMITTED: Final = {"isolation.level": "read_committed"}


def read_outputs(bootstrap: str, places: Iterable[OutputPartition]) -> dict[OutputPartition, list[StoredOutput]]:
    """All that is committed, by partition. What lies behind a transaction that never ended is not there."""
    consumer = new_consumer(bootstrap, **READ_COMMITTED, **{"enable.partition.eof": True})
    logs: dict[OutputPartition, list[StoredOutput]] = {place: [] for place in places}
    unread = set(logs)
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in logs])
        deadline = time.monotonic() + READ_SECONDS_MAX
        while unread:
            assert time.monotonic() < deadline, f"{sorted(unread)} are not read to their end in {READ_SECONDS_MAX} s"
            for message in consumer.consume(MESSAGES_PER_CALL, WAIT_SECONDS):
                place = _place_of(message)
                if (error := message.error()) is None:
                    logs[place].append(_stored_of(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    unread.discard(place)
                else:
                    raise AssertionError(f"{place}: {error.str()}")
        return logs
    finally:
        consumer.close()


class OutputTail(threading.Thread):
    """Reads what is committed while it is committed, and keeps what it saw."""

    def __init__(self, bootstrap: str, places: Iterable[OutputPartition]) -> None:
        super().__init__(name="output tail", daemon=True)
        self.seen: list[tuple[OutputPartition, StoredOutput]] = []
        self._stopping = threading.Event()
        self._consumer = new_consumer(bootstrap, **READ_COMMITTED)
        self._consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in places])

    def run(self) -> None:
        while not self._stopping.is_set():
            for message in self._consumer.consume(MESSAGES_PER_CALL, WAIT_SECONDS):
                if message.error() is None:
                    self.seen.append((_place_of(message), _stored_of(message)))
        self._consumer.close()

    def stop(self) -> list[tuple[OutputPartition, StoredOutput]]:
        self._stopping.set()
        self.join(READ_SECONDS_MAX)
        assert not self.is_alive(), "the tail hangs"
        return self.seen


def _place_of(message: Message) -> OutputPartition:
    topic, partition = message.topic(), message.partition()
    assert topic is not None and partition is not None
    return OutputPartition(topic, partition)


def _stored_of(message: Message) -> StoredOutput:
    offset = message.offset()
    assert offset is not None
    return StoredOutput(offset, decode_output(message.value()))
