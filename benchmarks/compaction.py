"""How fast is a log compacted, and does anyone wait meanwhile?

A topic is filled with keys that come back about ten times each, then declared compacted. The clock runs from there until
the broker's `cleaner-offset-checkpoint` says that every sealed segment is clean; what was read per second is the rate.
A heartbeat listens from before the change until after: the cleaner must not keep an unrelated client waiting.
"""

import random
import time
from collections.abc import Callable, Mapping
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from benchmarks.heartbeat import Heartbeat
from benchmarks.payloads import event_payloads
from benchmarks.peers import Peer, PeerError
from benchmarks.rounds import Goal, Metric, Round, Scenario
from benchmarks.topics import create_topics

TOPIC: Final = "profiles"
DATA_BYTES: Final = 300_000_000
SEGMENT_BYTES: Final = 32 << 20
WRITES_PER_KEY: Final = 10
LISTEN_SECONDS: Final = 20
COMPACTION_SECONDS_MAX: Final = 600.0
POLL_SECONDS: Final = 0.01
EAGER: Final = {"log.cleaner.backoff.ms": "100"}


def _compaction(message_bytes: int) -> Callable[[Round], Mapping[str, float]]:
    def measure(turn: Round) -> Mapping[str, float]:
        peer = turn.peer.fresh(f"{turn.scenario}-{turn.index}", properties=EAGER)
        try:
            peer.start()
            configs = {"segment.bytes": str(SEGMENT_BYTES), "min.cleanable.dirty.ratio": "0.01"}
            create_topics(peer, {TOPIC: 1}, configs=configs)
            _write(peer, message_bytes, turn.scaled(DATA_BYTES, at_least=3 * SEGMENT_BYTES) // message_bytes)
            return _measure(peer, seconds=3 if turn.quick else LISTEN_SECONDS)
        finally:
            peer.discard()

    return measure


def _write(peer: Peer, message_bytes: int, count: int) -> None:
    chance = random.Random(7)
    payloads = event_payloads(message_bytes)
    producer = Producer(
        {"bootstrap.servers": peer.bootstrap, "linger.ms": 5, "batch.size": 16_384, "log_level": 3, "acks": 1}
    )
    for number in range(count):
        key = b"user-%08d" % chance.randrange(count // WRITES_PER_KEY)
        while True:
            try:
                producer.produce(TOPIC, payloads[number % len(payloads)], key, partition=0)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(60):
        raise PeerError(f"{peer.name} did not take every message")


def _measure(peer: Peer, *, seconds: int) -> Mapping[str, float]:
    segments = sorted(peer.data_directory.glob(f"{TOPIC}-0/*.log"))
    sealed_bytes = sum(segment.stat().st_size for segment in segments[:-1])
    end_offset = int(segments[-1].stem)
    heartbeat = Heartbeat(peer.port, seconds=seconds)
    try:
        _declare_compacted(peer)
        began = time.perf_counter()
        while _cleaned_end(peer) < end_offset:
            if time.perf_counter() - began > COMPACTION_SECONDS_MAX:
                raise PeerError(f"{peer.name} did not compact {sealed_bytes} bytes")
            time.sleep(POLL_SECONDS)
        took = time.perf_counter() - began
        latencies_ms = heartbeat.result()
    finally:
        heartbeat.stop()
    left_bytes = sum(segment.stat().st_size for segment in sorted(peer.data_directory.glob(f"{TOPIC}-0/*.log"))[:-1])
    return {**latencies_ms, "rate": sealed_bytes / took / 1e6, "left": left_bytes / sealed_bytes * 100}


def _declare_compacted(peer: Peer) -> None:
    admin = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 3})
    change = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[change])
    for result in admin.incremental_alter_configs([resource]).values():
        result.result()


def _cleaned_end(peer: Peer) -> int:
    """Of our partition, as the checkpoint has it."""
    checkpoint = peer.data_directory / "cleaner-offset-checkpoint"
    lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
    return max((int(line.split()[2]) for line in lines if line.startswith(f"{TOPIC} 0 ")), default=0)


def _scenario(name: str, message_bytes: int, goal: Goal) -> Scenario:
    return Scenario(
        name=name,
        metrics=(
            Metric(key="rate", title=f"compaction of {message_bytes} B messages", unit="MB/s", goal=goal),
            Metric(key="left", title="  bytes left", unit="%"),
            Metric(key="p99.9", title="  any client's wait meanwhile, p99.9", unit="ms"),
            Metric(key="max", title="  longest", unit="ms"),
            Metric(key="floor", title="  the wait for a mere echo beside it, p99.9", unit="ms"),
        ),
        measure=_compaction(message_bytes),
        own_broker=True,
        rounds_max=3,
    )


SCENARIOS: Final = (
    _scenario("compaction-100b", 100, Goal(ratio_min=0.5)),
    _scenario("compaction-1k", 1024, Goal(ratio_min=1.0)),
)
