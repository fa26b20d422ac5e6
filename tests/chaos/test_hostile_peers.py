"""Hostile peers beside well-behaved ones: the broker refuses, stays small, says little, and serves the others as before.

Every attack (attacks.py) runs in its own process against a broker with a small `queued.max.request.bytes`. A steady
producer and consumer are measured in a calm window, then during the attack; their records are judged at the end.
"""

import random
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer

import ottla.testing
from ottla.testing import Broker
from tests.chaos.attackers import attacking
from tests.chaos.attacks import BOMBS_AT_ONCE, IDLE_CONNECTIONS, LORIS_CONNECTIONS
from tests.chaos.brokers import require_untroubled, resident_bytes, wait_until
from tests.chaos.conftest import CreateTopic
from tests.chaos.files import require_sound_files
from tests.chaos.steady import SteadyClients
from tests.chaos.writers import QUIET

REQUEST_MEMORY_BYTES: Final = 32 << 20
GROWTH_BYTES_MAX: Final = REQUEST_MEMORY_BYTES + (64 << 20)  # Requests, and an allocator that keeps what it has had.
BOMBED_GROWTH_BYTES_MAX: Final = 256 << 20  # Unpacking has a bound, also for several at once.
RATE_KEPT_MIN: Final = 0.5  # Of a paced load, on a machine that others use too.
BYTES_PER_IDLE_CONNECTION_MAX: Final = 16 << 10
BULK_BYTES: Final = 48 << 20
WINDOW_SECONDS_MAX: Final = 10
ATTACKS: Final = (
    "garbage",
    "truncated_frames",
    "impossible_sizes",
    "large_declarations",
    "slow_loris",
    "never_reads",
    "churn",
    "lying_batches",
    "bombs",
    "mutations",
)
ESTABLISHED: Final = "01"  # As /proc/net/tcp writes it.
_CLOSING: Final = re.compile(r"^.*WARNING.*closing connection.*$", re.MULTILINE)


class PeakMemory(threading.Thread):
    """The most resident memory of a process while this runs."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._stopping = threading.Event()
        self.before_bytes = self.peak_bytes = resident_bytes(pid)

    def run(self) -> None:
        while not self._stopping.wait(0.05):
            self.peak_bytes = max(self.peak_bytes, resident_bytes(self._pid))

    def stop(self) -> None:
        self._stopping.set()
        self.join()

    @property
    def growth_bytes(self) -> int:
        return self.peak_bytes - self.before_bytes


@contextmanager
def peak_memory(pid: int) -> Iterator[PeakMemory]:
    peak = PeakMemory(pid)
    peak.start()
    try:
        yield peak
    finally:
        peak.stop()


@pytest.fixture
def broker(port: int) -> Iterator[Broker]:
    with ottla.testing.broker(port=port, config={"queued.max.request.bytes": REQUEST_MEMORY_BYTES}) as running:
        yield running


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ATTACKS)
def test_others_are_served_as_before(
    name: str,
    broker: Broker,
    rounds: int,
    chance: random.Random,
    create_topic: CreateTopic,
    report: Callable[[str], None],
) -> None:
    prepare(name, broker, create_topic)
    steady = SteadyClients(broker, create_topic)
    seconds = min(rounds, WINDOW_SECONDS_MAX)
    calm = steady.rates_over(seconds)
    with peak_memory(broker.pid) as memory, attacking(name, broker.port, chance.getrandbits(32)) as attacker:
        steady.rates_over(1)  # Until the attacker's process has begun.
        attacked = steady.rates_over(seconds)
        outcome = attacker.stop()
    verdict = steady.stop()

    report(
        f"calm {calm}; attacked {attacked}; {outcome['connections']} connections, {outcome['frames']} frames; "
        f"RSS {memory.before_bytes >> 20} + {memory.growth_bytes >> 20} MB; {verdict.summary}"
    )
    report_answers(outcome, report)
    assert outcome["frames"] > 0
    assert memory.growth_bytes <= (BOMBED_GROWTH_BYTES_MAX if name == "bombs" else GROWTH_BYTES_MAX)
    require_quiet_log(broker, outcome["connections"])
    assert attacked.written >= RATE_KEPT_MIN * calm.written
    assert attacked.read >= RATE_KEPT_MIN * calm.read
    require_recovery(broker)


def require_recovery(broker: Broker) -> None:
    """Nothing that the attackers left behind hurts a start after a crash."""
    broker.kill()
    broker.start()
    require_untroubled(broker)
    broker.stop()
    require_sound_files(broker.data_dir, "steady", 0)


def prepare(name: str, broker: Broker, create_topic: CreateTopic) -> None:
    """The topics that an attack needs."""
    match name:
        case "lying_batches":
            create_topic(broker.bootstrap_servers, "liars")
            create_topic(broker.bootstrap_servers, "recompressed", config={"compression.type": "lz4"})
        case "bombs":
            for number in range(BOMBS_AT_ONCE):
                create_topic(broker.bootstrap_servers, f"recompressed-{number}", config={"compression.type": "lz4"})
        case "never_reads":
            create_topic(broker.bootstrap_servers, "bulk")
            fill(broker.bootstrap_servers, "bulk", BULK_BYTES)


def fill(bootstrap: str, topic: str, size_bytes: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **QUIET})
    value = bytes(100_000)
    for _ in range(size_bytes // len(value)):
        producer.produce(topic, value, partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0


def report_answers(outcome: dict[str, Any], report: Callable[[str], None]) -> None:
    if outcome["answers"]:
        report("  answers: " + ", ".join(f"{what} {count}" for what, count in sorted(outcome["answers"].items())))


def require_quiet_log(broker: Broker, connections: int) -> None:
    """A line for each connection that was closed, at most, and no bug."""
    require_untroubled(broker)
    lines = _CLOSING.findall(broker.log)
    assert len(lines) <= connections, f"{len(lines)} lines about {connections} connections:\n" + "\n".join(lines[:20])


@pytest.mark.timeout(600)
def test_idle_connections_cost_little(
    broker: Broker, rounds: int, chance: random.Random, create_topic: CreateTopic, report: Callable[[str], None]
) -> None:
    steady = SteadyClients(broker, create_topic)
    calm = steady.rates_over(min(rounds, WINDOW_SECONDS_MAX))
    before = resident_bytes(broker.pid)
    with attacking("idle_connections", broker.port, chance.getrandbits(32)) as attacker:
        attacker.wait_ready()
        each = (resident_bytes(broker.pid) - before) / IDLE_CONNECTIONS
        attacked = steady.rates_over(min(rounds, WINDOW_SECONDS_MAX))
        attacker.stop()
    steady.stop()
    report(f"{IDLE_CONNECTIONS} idle connections: {each:.0f} bytes each; calm {calm}; with them {attacked}")
    assert each <= BYTES_PER_IDLE_CONNECTION_MAX
    assert attacked.written >= RATE_KEPT_MIN * calm.written
    assert attacked.read >= RATE_KEPT_MIN * calm.read
    require_quiet_log(broker, 0)


def test_unfinished_requests_do_not_keep_a_connection_alive(
    port: int, chance: random.Random, report: Callable[[str], None]
) -> None:
    with ottla.testing.broker(port=port, config={"connections.max.idle.ms": 2_000}) as broker:
        with attacking("slow_loris", broker.port, chance.getrandbits(32)) as attacker:
            wait_until(lambda: connections_of(broker) >= LORIS_CONNECTIONS, "all slow clients are connected")
            wait_until(lambda: connections_of(broker) == 0, "the broker has closed all of them")
            outcome = attacker.stop()
        report(f"{outcome['connections']} slow clients, all closed after connections.max.idle.ms")
        require_quiet_log(broker, outcome["connections"])


def connections_of(broker: Broker) -> int:
    """Established ones, as the kernel counts them on the broker's side."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(f":{broker.port:04X}") and row[3] == ESTABLISHED for row in rows)
