"""A record into every partition again and again, so that a partition that nobody reads shows as a gap."""

import threading
from typing import Final, Self

from confluent_kafka import Producer

INTERVAL_S: Final = 0.05


class SteadyWriter:
    def __init__(self, bootstrap: str, topic: str, *, partitions: int) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "reconnect.backoff.max.ms": 100})
        self._topic = topic
        self._partitions = partitions
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def _write(self) -> None:
        while not self._ended.wait(INTERVAL_S):
            for partition in range(self._partitions):
                self._producer.produce(self._topic, b"steady", partition=partition)
            self._producer.poll(0)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._producer.flush(10)
