"""A group at work: members process an input that is being written and commit afterwards; somebody watches the commits.

Left in peace, the group must come to rest: every partition has one owner, and everything was processed.
"""

from collections import Counter
from typing import Final

from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import AdminClient

from tests.chaos.brokers import wait_until
from tests.chaos.checker import judge
from tests.chaos.committed_offsets import CommittedOffsets, CommitWatch, wait_all_committed
from tests.chaos.crew import Crew
from tests.chaos.group_checker import GroupVerdict, judge_group
from tests.chaos.group_member import GROUP, TOPIC
from tests.chaos.readers import read_all
from tests.chaos.writers import EXACTLY_ONCE, QUIET, Writer

PARTITIONS: Final = range(6)
MEMBERS: Final = 4
RECORDS_PER_SECOND: Final = 600
CONVERGE_SECONDS_MAX: Final = 60.0


class GroupRun:
    """From construction to `finish`. `TOPIC` is there already, `crew` are its members."""

    def __init__(self, bootstrap: str, crew: Crew, *, records_per_second: int = RECORDS_PER_SECOND) -> None:
        self._bootstrap = bootstrap
        self._crew = crew
        self._writer = Writer(
            bootstrap=bootstrap,
            topic=TOPIC,
            partitions=PARTITIONS,
            guarantee=EXACTLY_ONCE,
            records_per_second=records_per_second,
        )
        self._offsets = CommittedOffsets(bootstrap, group=GROUP, topic=TOPIC, partitions=PARTITIONS)
        self._watch = CommitWatch(self._offsets)
        self._writer.start()
        self._watch.start()

    @property
    def committed_count(self) -> int:
        """How many records are committed, as far as the watch knows."""
        return sum(self._watch.samples[-1].values()) if self._watch.samples else 0

    def finish(self) -> GroupVerdict:
        history = self._writer.stop()
        records = read_all(self._bootstrap, TOPIC, PARTITIONS)
        judge([history], records).require_clean()
        end_offsets = {partition: len(log) for partition, log in records.items()}
        wait_all_committed(self._offsets, end_offsets, self._crew)
        self._wait_at_rest()
        self._crew.stop()
        processed = ((int(partition), int(offset)) for _, (partition, offset) in self._crew.journal_lines())
        verdict = judge_group(end_offsets, processed, self._watch.stop())
        verdict.require_clean()
        return verdict

    def _wait_at_rest(self) -> None:
        """Until all processes that run are members, and every partition belongs to exactly one of them."""
        admin = AdminClient({"bootstrap.servers": self._bootstrap, **QUIET})
        seen = ""

        def is_at_rest() -> bool:
            nonlocal seen
            self._crew.tend()
            try:
                group = admin.describe_consumer_groups([GROUP], request_timeout=10)[GROUP].result()
            except KafkaException as failure:
                seen = str(failure)
                return False
            places = [place.partition for member in group.members for place in member.assignment.topic_partitions]
            owners = Counter(places)
            names = sorted(member.client_id for member in group.members)
            seen = f"{group.state.name} with {names} of {self._crew.running_count} processes, owners {dict(owners)}"
            return (
                group.state is ConsumerGroupState.STABLE
                and len(group.members) == self._crew.running_count
                and owners == dict.fromkeys(PARTITIONS, 1)
            )

        try:
            wait_until(is_at_rest, "the group is at rest", seconds=CONVERGE_SECONDS_MAX)
        except AssertionError as failure:
            raise AssertionError(f"{failure}: {seen}\n{self._crew.last_words}") from None
