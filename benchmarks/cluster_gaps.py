"""How long clients wait when a node dies, holds its breath, or is restarted: the longest silence of steady work.

Each worker repeats one small thing with an unmodified client and its defaults: produce a record, commit an offset, commit
a transaction. A silence begins with the last success before the fault and ends with the first one after it.
"""

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from benchmarks.cluster_peers import Cluster
from benchmarks.peers import PeerError

WAIT_SECONDS_MAX: Final = 120.0
POLL_SECONDS: Final = 0.05
SETTLED_SECONDS: Final = 2.0
PACE_SECONDS: Final = 0.002
ANSWER_SECONDS_MAX: Final = 60.0
QUIET: Final = {"log_level": 0}


class Work(threading.Thread):
    """Does one thing again and again, and notes when it succeeded."""

    def __init__(self, do_once: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._do_once = do_once
        self._over = threading.Event()
        self._successes: list[float] = []
        self.error_count = 0

    def run(self) -> None:
        while not self._over.is_set():
            try:
                self._do_once()
                self._successes.append(time.perf_counter())
            except KafkaException:
                self.error_count += 1
            time.sleep(PACE_SECONDS)

    def finish(self) -> float:
        """The longest silence in milliseconds."""
        self._over.set()
        self.join()
        times = self._successes
        return 1000 * max((later - earlier for earlier, later in itertools.pairwise(times)), default=0.0)

    def wait_for_successes(self, seconds: float) -> None:
        """Until it works again, and for so long more."""
        since, deadline = time.perf_counter(), time.monotonic() + WAIT_SECONDS_MAX
        while not self._successes or self._successes[-1] < since:
            if time.monotonic() > deadline:
                raise PeerError(f"nothing succeeded for {WAIT_SECONDS_MAX:.0f} s")
            time.sleep(POLL_SECONDS)
        time.sleep(seconds)


@contextmanager
def steady(do_once: Callable[[], None]) -> Iterator[Work]:
    work = Work(do_once)
    work.start()
    try:
        work.wait_for_successes(SETTLED_SECONDS)
        yield work
    finally:
        work.finish()


def produces(cluster: Cluster[Any], topic: str) -> Callable[[], None]:
    return _produces(cluster, topic, {})


def produces_impatiently(cluster: Cluster[Any], topic: str) -> Callable[[], None]:
    """By default librdkafka waits a minute for a broker that is silent, whoever leads by then."""
    return _produces(cluster, topic, {"socket.timeout.ms": 1000, "request.timeout.ms": 1000})


def _produces(cluster: Cluster[Any], topic: str, config: Mapping[str, object]) -> Callable[[], None]:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0, **QUIET, **config})

    def do_once() -> None:
        failed: list[Any] = []
        producer.produce(topic, b"o" * 100, on_delivery=lambda error, _: failed.append(error) if error else None)
        if producer.flush(ANSWER_SECONDS_MAX) or failed:
            raise KafkaException(*failed)

    return do_once


def commits_offsets(cluster: Cluster[Any], topic: str, group: str) -> Callable[[], None]:
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": group, "enable.auto.commit": False, **QUIET}
    )
    offset = 0

    def do_once() -> None:
        nonlocal offset
        offset += 1
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)

    return do_once


def commits_transactions(cluster: Cluster[Any], topic: str, transactional_id: str) -> Callable[[], None]:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": transactional_id, **QUIET})
    producer.init_transactions(ANSWER_SECONDS_MAX)

    def do_once() -> None:
        producer.begin_transaction()
        producer.produce(topic, b"o" * 100)
        producer.commit_transaction(ANSWER_SECONDS_MAX)

    return do_once


# -- who is who ---------------------------------------------------------------------------------------------------------


def leader_of(cluster: Cluster[Any], topic: str, partition: int = 0) -> int:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET})
    return int(admin.list_topics(topic, timeout=ANSWER_SECONDS_MAX).topics[topic].partitions[partition].leader)


def wait_in_sync(cluster: Cluster[Any], *topics: str) -> None:
    """Until every replica of these topics, and of the internal ones, is in sync."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET})
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while time.monotonic() < deadline:
        found = admin.list_topics(timeout=ANSWER_SECONDS_MAX).topics
        wanted = [found[name] for name in found if name in topics or name.startswith("__")]
        if all(len(one.isrs) == len(one.replicas) for topic in wanted for one in topic.partitions.values()):
            return
        time.sleep(POLL_SECONDS)
    raise PeerError(f"{cluster.name}: not all replicas are in sync")
