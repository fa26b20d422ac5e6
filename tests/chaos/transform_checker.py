"""Judges consume-transform-produce: every input record must be in each output topic exactly once, in order.

Nothing here does any I/O. The checker is given what the input partitions hold, what a read_committed reader finds in the
output partitions in the end, where the group's committed offsets stand, what the workers were told of their
transactions, and what a reader saw meanwhile. It knows these violations:

    corrupt         a record whose checksum does not match
    invented        an output of no input record, or in another partition than its input's
    lost            an input record without its output
    duplicate       an input record with two outputs in one topic
    reordered       outputs that are not in the order of their inputs
    aborted         an output of a transaction that its worker aborted
    forgotten       a transaction that its worker was told is committed, and of which nothing is there
    torn            a transaction of which one topic holds what another does not
    offset          a committed offset that is not the end of what was transformed
    changed         a reader saw what is not there in the end, or saw it in another order
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tests.chaos.checker import Findings
from tests.chaos.outputs import Output, TransactionName


class OutputPartition(NamedTuple):
    topic: str
    partition: int


class StoredOutput(NamedTuple):
    """An output as a reader got it: None where its checksum did not match."""

    offset: int
    output: Output | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformRun:
    input_end_offsets: Mapping[int, int]
    """By input partition, whose offsets are dense from 0 on."""
    routes: Mapping[OutputPartition, int]
    """Output partition -> the input partition that it is written from."""
    logs: Mapping[OutputPartition, Sequence[StoredOutput]]
    committed_offsets: Mapping[int, int]
    outcomes: Mapping[TransactionName, bool]
    """What workers were told: True for committed, False for aborted."""
    reads: Iterable[tuple[OutputPartition, StoredOutput]] = ()


@dataclass(slots=True, kw_only=True)
class TransformVerdict(Findings):
    input_count: int = 0
    transaction_count: int = 0
    """Those that are visible."""
    unanswered_count: int = 0
    """Visible ones whose worker did not live to be told."""
    aborted_count: int = 0

    @property
    def summary(self) -> str:
        counts = f"{self.input_count} inputs in {self.transaction_count} transactions"
        fates = f"{self.unanswered_count} committed unheard, {self.aborted_count} aborted"
        return f"{counts}, {fates}, {self.found}"


def judge_transform(run: TransformRun) -> TransformVerdict:
    verdict = TransformVerdict(input_count=sum(run.input_end_offsets.values()))
    for place, log in run.logs.items():
        _judge_log(place, log, run, verdict)
    _judge_transactions(run, verdict)
    for partition, end_offset in run.input_end_offsets.items():
        if (committed := run.committed_offsets.get(partition, 0)) != end_offset:
            verdict.violate("offset", f"input {partition} is committed up to {committed}, its end is {end_offset}")
    _judge_reads(run, verdict)
    return verdict


def _judge_log(
    place: OutputPartition, log: Sequence[StoredOutput], run: TransformRun, verdict: TransformVerdict
) -> None:
    source_partition = run.routes[place]
    found: set[int] = set()
    last_source_offset = -1
    for offset, output in log:
        where = f"{place.topic}-{place.partition} offset {offset}"
        if output is None:
            verdict.violate("corrupt", where)
            continue
        source_offset = output.source_offset
        if output.source_partition != source_partition or source_offset >= run.input_end_offsets[source_partition]:
            verdict.violate("invented", f"{where}: {output}")
            continue
        if source_offset in found:
            verdict.violate("duplicate", f"{where}: {output}")
        elif source_offset < last_source_offset:
            verdict.violate("reordered", f"{where}: {output} behind {last_source_offset}")
        found.add(source_offset)
        last_source_offset = max(last_source_offset, source_offset)
    for source_offset in sorted(set(range(run.input_end_offsets[source_partition])) - found):
        verdict.violate("lost", f"input {source_partition} offset {source_offset} is not in {place.topic}")


def _judge_transactions(run: TransformRun, verdict: TransformVerdict) -> None:
    topics = {place.topic for place in run.logs}
    sources: dict[TransactionName, dict[str, set[tuple[int, int]]]] = defaultdict(
        lambda: {topic: set() for topic in topics}
    )
    for place, log in run.logs.items():
        for _, output in log:
            if output is not None:
                sources[output.transaction][place.topic].add((output.source_partition, output.source_offset))
                if output.is_doomed:
                    verdict.violate("aborted", f"{output} of a doomed transaction in {place}")
    for transaction, by_topic in sources.items():
        everywhere = set.union(*by_topic.values())
        for topic, there in by_topic.items():
            if there != everywhere:
                verdict.violate("torn", f"{transaction}: {topic} lacks {sorted(everywhere - there)[:3]}")
        if run.outcomes.get(transaction) is False:
            verdict.violate("aborted", f"{transaction} was aborted and is visible")
    for transaction, is_committed in run.outcomes.items():
        if is_committed and transaction not in sources:
            verdict.violate("forgotten", f"{transaction} was committed and is nowhere")
    verdict.transaction_count = len(sources)
    verdict.unanswered_count = sum(transaction not in run.outcomes for transaction in sources)
    verdict.aborted_count = sum(not is_committed for is_committed in run.outcomes.values())


def _judge_reads(run: TransformRun, verdict: TransformVerdict) -> None:
    final = {place: dict(log) for place, log in run.logs.items()}
    last_offsets: dict[OutputPartition, int] = {}
    for place, (offset, output) in run.reads:
        if offset not in final[place] or final[place][offset] != output:
            verdict.violate("changed", f"{place} offset {offset}: read {output}, now {final[place].get(offset)}")
        if offset <= last_offsets.get(place, -1):
            verdict.violate("changed", f"{place}: read {offset} after {last_offsets[place]}")
        last_offsets[place] = offset
