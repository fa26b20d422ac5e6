"""A member of a group that reads on whatever happens to its brokers: a librdkafka consumer that commits by itself."""

import threading
from typing import Final, Self

from confluent_kafka import Consumer, TopicPartition

from tests.chaos.brokers import wait_until
from tests.chaos.readers import MESSAGES_PER_CALL, WAIT_SECONDS, position_of
from tests.chaos.writers import QUIET

STOP_SECONDS_MAX: Final = 60.0
COMMIT_INTERVAL_MS: Final = 200
REFRESH_INTERVAL_MS: Final = 1_000  # Five minutes by default: so long a client may not know of a node that has joined.
ANSWER_SECONDS_MAX: Final = 20.0


class GroupReader:
    """Use as a context. Keeps what it read, what it was told, and how often partitions were taken from it."""

    def __init__(self, bootstrap: str, topic: str, *, group: str) -> None:
        self.group = group
        self.errors: list[str] = []
        self.revoked_count = 0
        self._positions: dict[int, list[int]] = {}
        self._over = threading.Event()
        self._settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": COMMIT_INTERVAL_MS,
            "topic.metadata.refresh.interval.ms": REFRESH_INTERVAL_MS,
            **QUIET,
        }
        self._consumer = Consumer(self._settings)
        self._consumer.subscribe([topic], on_revoke=self._on_revoke)
        self._thread = threading.Thread(target=self._run, name=f"member of {group}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.wait_for(10)
        return self

    def __exit__(self, *failure: object) -> None:
        self._over.set()
        self._thread.join(STOP_SECONDS_MAX)
        assert not self._thread.is_alive(), f"a member of {self.group} hangs"

    @property
    def count(self) -> int:
        return sum(map(len, self._positions.values()))

    def wait_for(self, count: int, *, seconds: float = 30.0) -> None:
        wanted = self.count + count
        wait_until(lambda: self.count >= wanted, f"{self.group} reads {count} more", seconds=seconds)

    def committed(self, bootstrap: str, topic: str, partition: int = 0) -> int:
        """As somebody else is told who asks the coordinator."""
        asking = Consumer({**self._settings, "bootstrap.servers": bootstrap, "enable.auto.commit": False})
        try:
            [found] = asking.committed([TopicPartition(topic, partition)], timeout=ANSWER_SECONDS_MAX)
        finally:
            asking.close()
        return int(found.offset)

    def require_undisturbed(self) -> None:
        """Each record came once and in order, nothing was taken away, and no error was told."""
        assert not self.errors, self.errors[:5]
        assert self.revoked_count == 0, "partitions were taken away and nobody else was there"
        for partition, offsets in self._positions.items():
            assert offsets == list(range(len(offsets))), (
                f"partition {partition} was not read in order, each record once"
            )

    def _run(self) -> None:
        while not self._over.is_set():
            for message in self._consumer.consume(MESSAGES_PER_CALL, WAIT_SECONDS):
                if (error := message.error()) is not None:
                    self.errors.append(error.str())
                else:
                    partition, offset = position_of(message)
                    self._positions.setdefault(partition, []).append(offset)
        self._consumer.close()

    def _on_revoke(self, _: Consumer, __: list[TopicPartition]) -> None:
        if not self._over.is_set():
            self.revoked_count += 1
