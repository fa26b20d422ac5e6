"""Hostile peers beside well-behaved ones: the broker refuses, stays small, says little, and serves the others as before.

Every attack (attacks.py) runs in its own process against a broker with a small `queued.max.request.bytes`. A steady
producer and consumer are measured in a calm window, then during the attack; their records are judged at the end.
"""

import random
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

import ottla.testing
from ottla.testing import Broker
from tests.chaos.attackers import attacking
from tests.chaos.attacks import BOMBS_AT_ONCE, IDLE_CONNECTIONS, LORIS_CONNECTIONS, SILENT_CONNECTIONS
from tests.chaos.brokers import connection_count, require_untroubled, wait_until
from tests.chaos.conftest import CreateTopic
from tests.chaos.files import require_sound_files
from tests.chaos.filler import Filler
from tests.chaos.memory import peak_memory, resident_bytes
from tests.chaos.steady import SteadyClients

REQUEST_MEMORY_BYTES: Final = 32 << 20
GROWTH_BYTES_MAX: Final = REQUEST_MEMORY_BYTES + (64 << 20)  # Requests, and an allocator that keeps what it has had.
BOMBED_GROWTH_BYTES_MAX: Final = 256 << 20  # Unpacking has a bound, also for several at once.
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
    "lying_batches",
    "bombs",
    "mutations",
)
# What a header alone gives away. Records that cannot be read behind a perfect header are for their readers to refuse.
NEVER_BELIEVED: Final = (
    "wrong_length",
    "wrong_checksum",
    "wrong_count",
    "huge_count",
    "header_alone",
    "cut_short",
    "two_batches",
    "random_bytes",
    "other_format",
)
_CLOSING: Final = re.compile(r"^.*WARNING.*closing connection.*$", re.MULTILINE)


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
        attacked = steady.require_rates(calm, seconds)
        outcome = attacker.stop()
    verdict = steady.stop()

    report(
        f"calm {calm}; attacked {attacked}; {outcome['connections']} connections, {outcome['frames']} frames; "
        f"RSS {memory.before_bytes >> 20} + {memory.growth_bytes >> 20} MB; {verdict.summary}"
    )
    report_answers(outcome, report)
    assert outcome["frames"] > 0
    believed = [lie for lie in NEVER_BELIEVED if f"{lie}: error 0" in outcome["answers"]]
    assert not believed
    assert memory.growth_bytes <= (BOMBED_GROWTH_BYTES_MAX if name == "bombs" else GROWTH_BYTES_MAX)
    require_quiet_log(broker, outcome["connections"])
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
            Filler(broker, "bulk", writer=0).write_bytes(BULK_BYTES)


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
        attacked = steady.require_rates(calm, min(rounds, WINDOW_SECONDS_MAX))
        attacker.stop()
    steady.stop()
    report(f"{IDLE_CONNECTIONS} idle connections: {each:.0f} bytes each; calm {calm}; with them {attacked}")
    assert each <= BYTES_PER_IDLE_CONNECTION_MAX
    require_quiet_log(broker, 0)


@pytest.mark.parametrize(
    ("name", "connections"), [("slow_loris", LORIS_CONNECTIONS), ("never_reads", SILENT_CONNECTIONS)]
)
def test_nobody_keeps_a_connection_without_using_it(
    name: str, connections: int, port: int, chance: random.Random, create_topic: CreateTopic
) -> None:
    """Neither requests that are never finished nor answers that are never read count as use."""
    with ottla.testing.broker(port=port, config={"connections.max.idle.ms": 2_000}) as broker:
        prepare(name, broker, create_topic)
        with attacking(name, broker.port, chance.getrandbits(32)) as attacker:
            wait_until(lambda: connection_count(broker) >= connections, "all of them are connected")
            wait_until(lambda: connection_count(broker) == 0, "the broker has closed all of them")
            outcome = attacker.stop()
        require_quiet_log(broker, outcome["connections"])
