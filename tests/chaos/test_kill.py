"""kill -9 of the broker under load, at random moments: nothing acknowledged is lost, nothing is invented.

Idempotent producers, one with acks=1 and one with acks=0 write numbered records to several partitions whose segments
are small, so that kills hit rolls too; a consumer tails them, and a topic is created between the kills. Every fifth kill
comes while the broker is still starting, that is, recovering. At the end a checker compares everything that was sent,
promised and seen with everything that is in the log (checker.py says what it looks for).
"""

import random
import time
from collections.abc import Callable
from typing import Final

import pytest

import ottla.testing
from ottla.testing import Broker
from tests.chaos.brokers import kill_while_starting, require_untroubled
from tests.chaos.checker import judge
from tests.chaos.conftest import CreateTopic
from tests.chaos.files import require_sound_files
from tests.chaos.readers import Tail, new_consumer, read_all
from tests.chaos.writers import EXACTLY_ONCE, LEADER, NO_ANSWER, Guarantee, Writer, wait_for_progress

PARTITIONS: Final = range(4)
GUARANTEES: Final[tuple[Guarantee, ...]] = (EXACTLY_ONCE, EXACTLY_ONCE, LEADER, NO_ANSWER)
RECORDS_PER_SECOND: Final = 1_500  # Of each writer.
LOAD_SECONDS: Final = (0.0, 0.8)
STARTING_SECONDS: Final = (0.05, 0.4)
KILL_IN_RECOVERY_EVERY: Final = 5


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("durability", ["flush.messages=1", "defaults"])
def test_kill_under_load(
    durability: str,
    rounds: int,
    chance: random.Random,
    port: int,
    create_topic: CreateTopic,
    report: Callable[[str], None],
) -> None:
    with ottla.testing.broker(port=port) as broker:
        config = {"segment.bytes": 1 << 20} | ({"flush.messages": 1} if durability != "defaults" else {})
        create_topic(broker.bootstrap_servers, "load", partitions=len(PARTITIONS), config=config)
        tail = Tail(bootstrap=broker.bootstrap_servers, topic="load", partitions=PARTITIONS)
        writers = [new_writer(broker, guarantee) for guarantee in GUARANTEES]
        for thread in (tail, *writers):
            thread.start()

        topics = ["load"]
        for number in range(rounds):
            wait_for_progress(writers)
            time.sleep(chance.uniform(*LOAD_SECONDS))
            topics.append(f"made-before-kill-{number}")
            create_topic(broker.bootstrap_servers, topics[-1])
            broker.kill()
            if number % KILL_IN_RECOVERY_EVERY == KILL_IN_RECOVERY_EVERY - 1:
                kill_while_starting(broker, chance.uniform(*STARTING_SECONDS))
            broker.start()

        histories = [writer.stop() for writer in writers]
        logs = read_all(broker.bootstrap_servers, "load", PARTITIONS)
        verdict = judge(histories, logs, reads=tail.stop())
        verdict.require_clean()
        tail.require_steady()
        assert names_of_topics(broker) >= set(topics)
        require_untroubled(broker)
        broker.stop()
        segments = sum(require_sound_files(broker.data_dir, "load", partition) for partition in PARTITIONS)
        report(f"{rounds} kills: {verdict.summary}; {len(tail.seen)} read while written; {segments} segments")


def new_writer(broker: Broker, guarantee: Guarantee) -> Writer:
    return Writer(
        bootstrap=broker.bootstrap_servers,
        topic="load",
        partitions=PARTITIONS,
        guarantee=guarantee,
        records_per_second=RECORDS_PER_SECOND,
    )


def names_of_topics(broker: Broker) -> set[str]:
    consumer = new_consumer(broker.bootstrap_servers)
    try:
        return set(consumer.list_topics(timeout=20).topics)
    finally:
        consumer.close()
