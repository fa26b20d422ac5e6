"""Consume-transform-produce while the broker and the workers are killed, stopped and suspended at random.

Workers (transform_worker.py) read an input topic that is being written and write two output topics and their offsets in
transactions. A reader tails the outputs. At the end a checker compares all inputs with all outputs, with what the workers
were told and with the committed offsets (transform_checker.py says what it looks for).
"""

import random
from collections.abc import Callable
from typing import Final

import pytest

from tests.chaos.checker import judge
from tests.chaos.committed_offsets import CommittedOffsets, wait_all_committed
from tests.chaos.conftest import CreateTopic, NewCrew
from tests.chaos.crew import Crew
from tests.chaos.faults import Faults
from tests.chaos.output_readers import OutputTail, read_outputs
from tests.chaos.outputs import TransactionName
from tests.chaos.readers import read_all
from tests.chaos.subject import Subject
from tests.chaos.transform_checker import OutputPartition, TransformRun, judge_transform
from tests.chaos.transform_worker import GROUP, INPUT, OUTPUTS, output_partition
from tests.chaos.writers import EXACTLY_ONCE, Writer

PARTITIONS: Final = range(3)
RECORDS_PER_SECOND: Final = 300
ROUTES: Final = {
    OutputPartition(topic, output_partition(topic, source, len(PARTITIONS))): source
    for topic in OUTPUTS
    for source in PARTITIONS
}


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("is_group", [False, True], ids=["an id per partition", "a group"])
def test_every_input_is_transformed_exactly_once(
    is_group: bool,
    subject: Subject,
    chaos_seconds: float,
    chance: random.Random,
    create_topic: CreateTopic,
    new_crew: NewCrew,
    report: Callable[[str], None],
) -> None:
    bootstrap = subject.bootstrap_servers
    for topic in (INPUT, *OUTPUTS):
        create_topic(bootstrap, topic, partitions=len(PARTITIONS), config={"segment.bytes": 1 << 20})
    writer = Writer(
        bootstrap=bootstrap,
        topic=INPUT,
        partitions=PARTITIONS,
        guarantee=EXACTLY_ONCE,
        records_per_second=RECORDS_PER_SECOND,
    )
    tail = OutputTail(bootstrap, ROUTES)
    crew = new_crew(
        "tests.chaos.transform_worker",
        size=len(PARTITIONS),
        bootstrap=bootstrap,
        partition_count=len(PARTITIONS),
        is_group=is_group,
    )
    for thread in (writer, tail):
        thread.start()
    faults = Faults(subject, crew, chance)
    faults.go_on_for(chaos_seconds)

    history = writer.stop()
    inputs = read_all(bootstrap, INPUT, PARTITIONS)
    judge([history], inputs).require_clean()
    end_offsets = {partition: len(log) for partition, log in inputs.items()}
    offsets = CommittedOffsets(bootstrap, group=GROUP, topic=INPUT, partitions=PARTITIONS)
    committed = wait_all_committed(offsets, end_offsets, crew)
    offsets.close()
    crew.stop()
    run = TransformRun(
        input_end_offsets=end_offsets,
        routes=ROUTES,
        logs=read_outputs(bootstrap, ROUTES),
        committed_offsets=committed,
        outcomes=outcomes_of(crew),
        reads=tail.stop(),
    )
    verdict = judge_transform(run)
    verdict.require_clean()
    assert verdict.aborted_count > 0 and verdict.transaction_count > len(PARTITIONS), "it is too quiet to show anything"
    subject.require_untroubled()
    report(f"{faults.summary}; {verdict.summary}; workers ended: {dict(crew.exits)}")


def outcomes_of(crew: Crew) -> dict[TransactionName, bool]:
    return {
        TransactionName(worker, int(incarnation), int(number)): outcome == "committed"
        for worker, (incarnation, number, outcome) in crew.journal_lines()
    }
