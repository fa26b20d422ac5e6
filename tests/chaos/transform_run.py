"""Consume-transform-produce at work: workers (transform_worker.py) read an input topic that is being written and write two
output topics and their offsets in transactions; a reader tails the outputs.

At the end a checker compares all inputs with all outputs, with what the workers were told and with the committed offsets
(transform_checker.py says what it looks for).
"""

from typing import Final

from tests.chaos.checker import judge
from tests.chaos.committed_offsets import CommittedOffsets, wait_all_committed
from tests.chaos.crew import Crew
from tests.chaos.output_readers import OutputTail, read_outputs
from tests.chaos.outputs import TransactionName
from tests.chaos.readers import read_all
from tests.chaos.transform_checker import OutputPartition, TransformRun, TransformVerdict, judge_transform
from tests.chaos.transform_worker import GROUP, INPUT, OUTPUTS, output_partition
from tests.chaos.writers import EXACTLY_ONCE, Writer

PARTITIONS: Final = range(3)
RECORDS_PER_SECOND: Final = 300
ROUTES: Final = {
    OutputPartition(topic, output_partition(topic, source, len(PARTITIONS))): source
    for topic in OUTPUTS
    for source in PARTITIONS
}


class Transformation:
    """From construction to `finish`. The topics are there already, `crew` are the workers."""

    def __init__(self, bootstrap: str, crew: Crew, *, records_per_second: int = RECORDS_PER_SECOND) -> None:
        self._bootstrap = bootstrap
        self._crew = crew
        self._writer = Writer(
            bootstrap=bootstrap,
            topic=INPUT,
            partitions=PARTITIONS,
            guarantee=EXACTLY_ONCE,
            records_per_second=records_per_second,
        )
        self._tail = OutputTail(bootstrap, ROUTES)
        self._writer.start()
        self._tail.start()

    @property
    def seen_count(self) -> int:
        """How many outputs became visible to the tail."""
        return len(self._tail.seen)

    def finish(self) -> TransformVerdict:
        history = self._writer.stop()
        inputs = read_all(self._bootstrap, INPUT, PARTITIONS)
        judge([history], inputs).require_clean()
        end_offsets = {partition: len(log) for partition, log in inputs.items()}
        offsets = CommittedOffsets(self._bootstrap, group=GROUP, topic=INPUT, partitions=PARTITIONS)
        committed = wait_all_committed(offsets, end_offsets, self._crew)
        offsets.close()
        self._crew.stop()
        run = TransformRun(
            input_end_offsets=end_offsets,
            routes=ROUTES,
            logs=read_outputs(self._bootstrap, ROUTES),
            committed_offsets=committed,
            outcomes=outcomes_of(self._crew),
            reads=self._tail.stop(),
        )
        verdict = judge_transform(run)
        verdict.require_clean()
        is_loud = verdict.aborted_count > 0 and verdict.transaction_count > len(PARTITIONS)
        assert is_loud, "it is too quiet to show anything"
        return verdict


def outcomes_of(crew: Crew) -> dict[TransactionName, bool]:
    return {
        TransactionName(worker, int(incarnation), int(number)): outcome == "committed"
        for worker, (incarnation, number, outcome) in crew.journal_lines()
    }
