"""A group's committed offsets, asked from outside: once, all the time, and until they are where they should be."""

import contextlib
import threading
import time
from collections.abc import Iterable
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.chaos.crew import Crew
from tests.chaos.readers import READ_SECONDS_MAX, new_consumer

ASK_SECONDS_MAX: Final = 10.0
ANSWER_MS_MAX: Final = 2_000  # A coordinator that is silent shall not keep us from asking its successor.
WATCH_SECONDS: Final = 0.1
STUCK_SECONDS_MAX: Final = 90.0  # More than a session, a transaction's time-out and a client that hangs, together.


class CommittedOffsets:
    def __init__(self, bootstrap: str, *, group: str, topic: str, partitions: Iterable[int]) -> None:
        """Reads committed: a question waits for open transactions that hold some of the group's offsets."""
        settings = {"group.id": group, "isolation.level": "read_committed", "socket.timeout.ms": ANSWER_MS_MAX}
        self._consumer: Consumer = new_consumer(bootstrap, **settings)
        self._partitions = [TopicPartition(topic, partition) for partition in partitions]

    def ask(self) -> dict[int, int]:
        """By partition, 0 where none is; `KafkaException` when nobody answers in time."""
        found = self._consumer.committed(self._partitions, timeout=ASK_SECONDS_MAX)
        return {each.partition: max(each.offset, 0) for each in found}

    def close(self) -> None:
        self._consumer.close()


class CommitWatch(threading.Thread):
    """Asks again and again, and keeps every answer."""

    def __init__(self, offsets: CommittedOffsets) -> None:
        super().__init__(name="commit watch", daemon=True)
        self.samples: list[dict[int, int]] = []
        self._offsets = offsets
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.wait(WATCH_SECONDS):
            with contextlib.suppress(KafkaException):  # A broker that is down says nothing.
                self.samples.append(self._offsets.ask())

    def stop(self) -> list[dict[int, int]]:
        self._stopping.set()
        self.join(READ_SECONDS_MAX)
        assert not self.is_alive(), "the watch hangs"
        self._offsets.close()
        return self.samples


def wait_all_committed(offsets: CommittedOffsets, end_offsets: dict[int, int], crew: Crew) -> dict[int, int]:
    """The committed offsets once a crew, left in peace, has done all there is, however slow the machine."""
    latest: dict[int, int] = {}
    deadline = time.monotonic() + STUCK_SECONDS_MAX
    while latest != end_offsets:
        crew.resume_all()
        crew.tend()
        with contextlib.suppress(KafkaException):
            committed = offsets.ask()
            if committed != latest:
                deadline = time.monotonic() + STUCK_SECONDS_MAX
            latest = committed
        assert time.monotonic() < deadline, f"stuck at {latest} of {end_offsets}\n{crew.last_words}"
        time.sleep(WATCH_SECONDS)
    return latest
