"""A group at work while its members and its broker are killed, stopped and suspended at random.

Members (group_member.py) process an input that is being written and commit afterwards. Somebody watches the committed
offsets. Left in peace, the group must come to rest: every partition has one owner, and everything was processed.
"""

import random
from collections import Counter
from collections.abc import Callable
from typing import Final

import pytest
from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import AdminClient

from tests.chaos.brokers import wait_until
from tests.chaos.checker import judge
from tests.chaos.committed_offsets import CommittedOffsets, CommitWatch, wait_all_committed
from tests.chaos.conftest import CreateTopic, NewCrew
from tests.chaos.crew import Crew
from tests.chaos.faults import Faults
from tests.chaos.group_checker import judge_group
from tests.chaos.group_member import GROUP, TOPIC
from tests.chaos.readers import read_all
from tests.chaos.subject import Subject
from tests.chaos.writers import EXACTLY_ONCE, QUIET, Writer

PARTITIONS: Final = range(6)
MEMBERS: Final = 4
RECORDS_PER_SECOND: Final = 600
CHAOS_SECONDS_MAX: Final = 60.0
CONVERGE_SECONDS_MAX: Final = 60.0


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(("strategy", "is_static"), [("cooperative-sticky", False), ("range", False), ("range", True)])
def test_a_harmed_group_comes_to_rest(
    strategy: str,
    is_static: bool,
    subject: Subject,
    chaos_seconds: float,
    chance: random.Random,
    create_topic: CreateTopic,
    new_crew: NewCrew,
    report: Callable[[str], None],
) -> None:
    bootstrap = subject.bootstrap_servers
    create_topic(bootstrap, TOPIC, partitions=len(PARTITIONS))
    writer = Writer(
        bootstrap=bootstrap,
        topic=TOPIC,
        partitions=PARTITIONS,
        guarantee=EXACTLY_ONCE,
        records_per_second=RECORDS_PER_SECOND,
    )
    offsets = CommittedOffsets(bootstrap, group=GROUP, topic=TOPIC, partitions=PARTITIONS)
    watch = CommitWatch(offsets)
    crew = new_crew(
        "tests.chaos.group_member", size=MEMBERS, bootstrap=bootstrap, strategy=strategy, is_static=is_static
    )
    for thread in (writer, watch):
        thread.start()
    faults = Faults(subject, crew, chance)
    faults.go_on_for(min(chaos_seconds, CHAOS_SECONDS_MAX))

    history = writer.stop()
    records = read_all(bootstrap, TOPIC, PARTITIONS)
    judge([history], records).require_clean()
    end_offsets = {partition: len(log) for partition, log in records.items()}
    wait_all_committed(offsets, end_offsets, crew)
    wait_at_rest(bootstrap, crew)
    crew.stop()
    processed = ((int(partition), int(offset)) for _, (partition, offset) in crew.journal_lines())
    verdict = judge_group(end_offsets, processed, watch.stop())
    verdict.require_clean()
    subject.require_untroubled()
    report(f"{faults.summary}; {verdict.summary}; members ended: {dict(crew.exits)}")


def wait_at_rest(bootstrap: str, crew: Crew) -> None:
    """Until all processes that run are members, and every partition belongs to exactly one of them."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    seen = ""

    def is_at_rest() -> bool:
        nonlocal seen
        crew.tend()
        try:
            group = admin.describe_consumer_groups([GROUP], request_timeout=10)[GROUP].result()
        except KafkaException as failure:
            seen = str(failure)
            return False
        owners = Counter(place.partition for member in group.members for place in member.assignment.topic_partitions)
        names = sorted(member.client_id for member in group.members)
        seen = f"{group.state.name} with {names} of {crew.running_count} processes, owners {dict(owners)}"
        return (
            group.state is ConsumerGroupState.STABLE
            and len(group.members) == crew.running_count
            and owners == dict.fromkeys(PARTITIONS, 1)
        )

    try:
        wait_until(is_at_rest, "the group is at rest", seconds=CONVERGE_SECONDS_MAX)
    except AssertionError as failure:
        raise AssertionError(f"{failure}: {seen}\n{crew.last_words}") from None
