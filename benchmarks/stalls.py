"""Does anyone wait while a broker's disk is slow? A cold catch-up reader and retention at work, a heartbeat listening.

One topic holds more than the machine's memory and is read from its start, so that nearly every read misses the page
cache. (Nothing is dropped from the cache to get there: freed memory goes back to the host of a virtual machine, and the
scenario would measure how slowly it comes back.) Another topic is written steadily and kept so small that segments are
deleted all the time. Meanwhile a heartbeat measures how long an unrelated client waits for the simplest answer: in a
broker with one event loop, the loop's longest stall.
"""

import threading
import time
from collections.abc import Mapping
from typing import Final

from benchmarks.heartbeat import Heartbeat
from benchmarks.page_cache import memory_bytes, write_to_disk
from benchmarks.peers import Peer
from benchmarks.rounds import Goal, Metric, Round, Scenario
from benchmarks.topics import create_topics
from ottla.client.bulk import LoadConsumer, LoadError, LoadProducer, MessageBlock, is_partition_end
from ottla.client.load import produce_load

MESSAGE_BYTES: Final = 1024
MEMORY_MULTIPLE: Final = 1.1
QUICK_BYTES: Final = 200_000_000
LISTEN_SECONDS: Final = 30
CHURN_MESSAGES_PER_SECOND: Final = 50_000
READ_SILENCE_MS_MAX: Final = 20_000

RETENTION_OFTEN: Final = {"log.retention.check.interval.ms": "1000", "log.initial.task.delay.ms": "1000"}
CHURN_CONFIGS: Final = {
    "segment.bytes": str(16 << 20),
    "retention.bytes": str(64 << 20),
    "file.delete.delay.ms": "1000",
}


def _stalls(turn: Round) -> Mapping[str, float]:
    peer = turn.peer.fresh(f"stalls-{turn.index}", properties=RETENTION_OFTEN)
    try:
        peer.start()
        create_topics(peer, {"cold": 1}, configs={"segment.bytes": str(256 << 20)})
        create_topics(peer, {"churn": 1}, configs=CHURN_CONFIGS)
        cold_bytes = QUICK_BYTES if turn.quick else int(memory_bytes("MemTotal") * MEMORY_MULTIPLE)
        produce_load(peer.bootstrap, "cold", message_bytes=MESSAGE_BYTES, count=cold_bytes // MESSAGE_BYTES)
        return _listen(peer, seconds=3 if turn.quick else LISTEN_SECONDS)
    finally:
        peer.discard()


def _listen(peer: Peer, *, seconds: int) -> Mapping[str, float]:
    write_to_disk(peer.data_directory)
    disk_bytes_before = peer.process.disk_read_bytes()
    over = threading.Event()
    reader, writer = _ColdReader(peer, over), _ChurnWriter(peer, over)
    segments_before = {path.name for path in peer.data_directory.glob("churn-0/*.log")}
    heartbeat = Heartbeat(peer.port, seconds=seconds)
    try:
        reader.start()
        writer.start()
        latencies_ms = heartbeat.result()
    finally:
        heartbeat.stop()
        over.set()
        for thread in (reader, writer):
            if thread.is_alive():
                thread.join()
    for thread in (reader, writer):
        if thread.failure:
            raise LoadError(thread.failure)
    if (
        segments_before & {path.name for path in peer.data_directory.glob("churn-0/*.log")}
        and seconds >= LISTEN_SECONDS
    ):
        raise LoadError("retention deleted nothing: the scenario did not happen")
    read_bytes = reader.read_count * MESSAGE_BYTES
    cold_share = (peer.process.disk_read_bytes() - disk_bytes_before) / read_bytes
    return {**latencies_ms, "read": read_bytes / seconds / 1e6, "cold": min(1.0, cold_share) * 100}


class _ColdReader(threading.Thread):
    """Reads the cold topic from its start, and once more when it is through."""

    def __init__(self, peer: Peer, over: threading.Event) -> None:
        super().__init__(daemon=True)
        self._peer = peer
        self._over = over
        self.read_count = 0
        self.failure = ""

    def run(self) -> None:
        while not self._over.is_set() and not self.failure:
            with LoadConsumer(self._peer.bootstrap, "cold", config={"enable.partition.eof": True}) as consumer:
                consumer.start(0, 0)
                self._read_through(consumer)

    def _read_through(self, consumer: LoadConsumer) -> None:
        while not self._over.is_set():
            addresses = consumer.read_arrived(timeout_ms=READ_SILENCE_MS_MAX)
            if not addresses:
                self.failure = f"nothing to read for {READ_SILENCE_MS_MAX} ms"
                return
            at_end = is_partition_end(addresses[-1])
            self.read_count += len(addresses) - at_end
            consumer.release()
            if at_end:
                return


class _ChurnWriter(threading.Thread):
    """Writes steadily into the topic whose segments retention deletes."""

    def __init__(self, peer: Peer, over: threading.Event) -> None:
        super().__init__(daemon=True)
        self._peer = peer
        self._over = over
        self.failure = ""

    def run(self) -> None:
        block = MessageBlock([b"o" * MESSAGE_BYTES], length=CHURN_MESSAGES_PER_SECOND // 100)
        try:
            with LoadProducer(self._peer.bootstrap, "churn") as producer:
                while not self._over.is_set():
                    producer.send(block, block.length)
                    time.sleep(0.01)
                producer.wait_delivered()
        except LoadError as error:
            self.failure = str(error)


SCENARIOS: Final = (
    Scenario(
        name="stalls",
        metrics=(
            Metric(key="p50", title="cold reader and retention: any client's wait, p50", unit="ms"),
            Metric(key="p99", title="  p99", unit="ms"),
            Metric(key="p99.9", title="  p99.9", unit="ms", goal=Goal(ours_max=20)),
            Metric(key="max", title="  longest", unit="ms"),
            Metric(key="floor", title="  the wait for a mere echo beside it, p99.9", unit="ms"),
            Metric(key="read", title="  read by the catch-up reader", unit="MB/s"),
            Metric(key="cold", title="  of which from the disk", unit="%"),
        ),
        measure=_stalls,
        own_broker=True,
        rounds_max=1,
    ),
)
