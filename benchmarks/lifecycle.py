"""A broker's life: how soon it answers, what it weighs after work, and how it stands ten thousand partitions."""

import time
from collections.abc import Mapping
from typing import Final

from benchmarks.peers import Peer
from benchmarks.rounds import Goal, Metric, Round, Scenario
from benchmarks.topics import create_topics, wait_all_led, wait_all_served
from ottla.client.load import consume_load, produce_load

MEMORY_LOAD_COUNT: Final = 1_000_000
TOPICS: Final = 10
PARTITIONS_PER_TOPIC: Final = 1_000  # Apache Kafka refuses more than 10,000 records in one decision.


def _memory_after_load(turn: Round) -> Mapping[str, float]:
    """Whatever ran before counts too: a broker's memory is what its whole life left behind."""
    topic = turn.create_topic()
    count = turn.scaled(MEMORY_LOAD_COUNT)
    produce_load(turn.peer.bootstrap, topic, message_bytes=1024, count=count)
    consume_load(turn.peer.bootstrap, topic, count=count)
    return {"resident": turn.peer.process.resident_bytes() / 1e6}


def _startup(turn: Round) -> Mapping[str, float]:
    peer = turn.peer.fresh(f"startup-{turn.index}")
    try:
        return {"first_answer": peer.start()}
    finally:
        peer.discard()


def _many_partitions(turn: Round) -> Mapping[str, float]:
    peer = turn.peer.fresh(f"partitions-{turn.index}")
    expected = {f"many-{number}": turn.scaled(PARTITIONS_PER_TOPIC) for number in range(TOPICS)}
    try:
        peer.start()
        create_seconds = _create(peer, expected)
        resident_bytes = peer.process.resident_bytes()
        peer.stop()
        clean_led, clean_served = _restart(peer, expected)
        peer.kill()
        crash_led, crash_served = _restart(peer, expected)
        return {
            "create": create_seconds,
            "clean": clean_led,
            "clean_served": clean_served,
            "crash": crash_led,
            "crash_served": crash_served,
            "resident": max(resident_bytes, peer.process.resident_bytes()) / 1e6,
        }
    finally:
        peer.discard()


def _create(peer: Peer, expected: Mapping[str, int]) -> float:
    started = time.perf_counter()
    create_topics(peer, expected)
    wait_all_led(peer, expected)
    return time.perf_counter() - started


def _restart(peer: Peer, expected: Mapping[str, int]) -> tuple[float, float]:
    """Seconds until every partition has a leader, and until every one answers for its end offset."""
    started = time.perf_counter()
    peer.start()
    wait_all_led(peer, expected)
    led = time.perf_counter() - started
    wait_all_served(peer, expected)
    return led, time.perf_counter() - started


_QUARTER: Final = Goal(ratio_max=0.25)

SCENARIOS: Final = (
    Scenario(
        name="memory",
        metrics=(Metric(key="resident", title="resident memory after the load", unit="MB", goal=Goal(ratio_max=0.1)),),
        measure=_memory_after_load,
    ),
    Scenario(
        name="startup",
        metrics=(Metric(key="first_answer", title="start to first answer", unit="s", goal=Goal(ratio_max=0.2)),),
        measure=_startup,
        own_broker=True,
    ),
    Scenario(
        name="many-partitions",
        metrics=(
            Metric(key="create", title="10,000 partitions: create", unit="s"),
            Metric(key="clean", title="  clean restart until all have leaders", unit="s", goal=_QUARTER),
            Metric(key="clean_served", title="  … and all give their end offset", unit="s"),
            Metric(key="crash", title="  restart after kill -9 until all have leaders", unit="s", goal=_QUARTER),
            Metric(key="crash_served", title="  … and all give their end offset", unit="s"),
            Metric(key="resident", title="  resident memory", unit="MB", goal=_QUARTER),
        ),
        measure=_many_partitions,
        own_broker=True,
    ),
)
