"""Clients that are slow, stopped or restless, beside one producer and one consumer that must not notice (scene 18)."""

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from confluent_kafka import TopicPartition

import ottla.testing
from ottla.testing import Broker
from tests.chaos.attackers import attacking
from tests.chaos.attacks import CHURN_CONNECTIONS
from tests.chaos.brokers import open_file_count, require_untroubled, wait_until
from tests.chaos.conftest import CreateTopic
from tests.chaos.filler import Filler
from tests.chaos.memory import resident_bytes
from tests.chaos.raw_client import Target, api_versions_frame, fetch_frame, read_frame
from tests.chaos.readers import new_consumer
from tests.chaos.steady import TOPIC, SteadyClients

SLOW_RECORDS_PER_SECOND: Final = 100
SLOW_RATE_KEPT_MIN: Final = 0.5
WINDOW_SECONDS_MAX: Final = 10
BULK_BYTES: Final = 32 << 20
LARGE_ANSWER_BYTES: Final = 2 << 20
LARGE_ANSWERS: Final = 500
CHURN_GROWTH_BYTES_MAX: Final = 16 << 20


@pytest.fixture
def broker(port: int) -> Iterator[Broker]:
    with ottla.testing.broker(port=port) as running:
        yield running
        require_untroubled(running)


@pytest.fixture
def window_seconds(rounds: int) -> int:
    return min(rounds, WINDOW_SECONDS_MAX)


class SlowConsumer(threading.Thread):
    """Takes a hundred records a second and lets librdkafka fetch no more than it needs for that."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(name="slow consumer", daemon=True)
        settings = {
            "queued.min.messages": 1,
            "queued.max.messages.kbytes": 64,
            "fetch.message.max.bytes": 16 << 10,
            "fetch.queue.backoff.ms": 10,  # Not its second: small batches would make the client slower than meant.
        }
        self._consumer = new_consumer(broker.bootstrap_servers, **settings)
        self._consumer.assign([TopicPartition(TOPIC, 0, 0)])
        self._stopping = threading.Event()
        self.offsets: list[int] = []

    def run(self) -> None:
        due = time.monotonic()
        while not self._stopping.wait(max(due - time.monotonic(), 0)):
            due += 1 / SLOW_RECORDS_PER_SECOND
            message = self._consumer.poll(1)
            if message is not None and message.error() is None:
                self.offsets.append(message.offset() or 0)
        self._consumer.close()

    def stop(self) -> None:
        self._stopping.set()
        self.join(20)


def test_a_fast_and_a_slow_consumer(
    broker: Broker, window_seconds: int, create_topic: CreateTopic, report: Callable[[str], None]
) -> None:
    """Scene 18: neither slows the other, nor the producer."""
    steady = SteadyClients(broker, create_topic)
    calm = steady.rates_over(window_seconds)
    slow = SlowConsumer(broker)
    slow.start()
    began = time.monotonic()
    disturbed = steady.require_rates(calm, window_seconds)
    slow.stop()
    slow_rate = len(slow.offsets) / (time.monotonic() - began)
    steady.stop()
    report(f"alone {calm}; beside a slow one {disturbed}; the slow one {slow_rate:.0f}/s")
    assert slow.offsets == list(range(len(slow.offsets)))
    assert slow_rate >= SLOW_RATE_KEPT_MIN * SLOW_RECORDS_PER_SECOND


@pytest.mark.parametrize("client", ["greedy_reader", "greedy_writer"])
def test_a_stopped_client(
    client: str,
    broker: Broker,
    window_seconds: int,
    chance: random.Random,
    create_topic: CreateTopic,
    report: Callable[[str], None],
) -> None:
    """SIGSTOP in the middle of large answers or requests; then SIGCONT, and it goes on where it was."""
    create_topic(broker.bootstrap_servers, "bulk", config={"retention.bytes": BULK_BYTES})
    Filler(broker, "bulk", writer=0).write_bytes(BULK_BYTES)
    steady = SteadyClients(broker, create_topic)
    calm = steady.rates_over(window_seconds)
    with attacking(client, broker.port, chance.getrandbits(32)) as stopped:
        stopped.wait_ready()
        time.sleep(chance.uniform(0.2, 0.5))
        os.kill(stopped.pid, signal.SIGSTOP)
        before_bytes = resident_bytes(broker.pid)
        disturbed = steady.require_rates(calm, window_seconds)
        growth_bytes = resident_bytes(broker.pid) - before_bytes
        os.kill(stopped.pid, signal.SIGCONT)
        time.sleep(0.5)
        outcome = stopped.stop()
    steady.stop()
    report(f"alone {calm}; beside a stopped one {disturbed}; RSS + {growth_bytes >> 20} MB; {outcome['frames']} frames")
    assert outcome["connections"] == 1


@pytest.mark.timeout(300)
def test_connections_that_come_and_go(
    broker: Broker, window_seconds: int, chance: random.Random, create_topic: CreateTopic, report: Callable[[str], None]
) -> None:
    steady = SteadyClients(broker, create_topic)
    calm = steady.rates_over(window_seconds)
    files_before, bytes_before = open_file_count(broker.pid), resident_bytes(broker.pid)
    with attacking("churn", broker.port, chance.getrandbits(32)) as attacker:
        disturbed = steady.require_rates(calm, window_seconds)
        attacker.wait_ready()
        outcome = attacker.stop()
    growth_bytes = resident_bytes(broker.pid) - bytes_before
    # A segment or two may have been rolled meanwhile; ten thousand sockets would show.
    wait_until(lambda: open_file_count(broker.pid) <= files_before + 10, "the connections are gone from the broker")
    steady.stop()
    report(f"{outcome['connections']} connections; RSS + {growth_bytes >> 20} MB; calm {calm}; meanwhile {disturbed}")
    assert outcome["connections"] >= CHURN_CONNECTIONS
    assert growth_bytes <= CHURN_GROWTH_BYTES_MAX


def test_requests_behind_a_large_answer_are_answered(
    broker: Broker, chance: random.Random, create_topic: CreateTopic
) -> None:
    """The answer is larger than the bound on unsent bytes, so the next request is held back, but not for ever."""
    create_topic(broker.bootstrap_servers, "bulk")
    Filler(broker, "bulk", writer=0).write_bytes(LARGE_ANSWER_BYTES)
    target = Target(broker.port, chance.getrandbits(32))
    with target.connect() as sock:
        for number in range(LARGE_ANSWERS):
            target.send(sock, fetch_frame("bulk"))
            time.sleep(chance.choice((0, 0, 0.0001, 0.001)))
            target.send(sock, api_versions_frame())
            are_answered = [read_frame(sock) is not None for _ in range(2)]
            assert are_answered == [True, True], f"round {number}"
