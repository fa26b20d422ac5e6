"""Judges a run: what writers sent and were promised, against what the log holds in the end and what readers saw.

Nothing here does any I/O. Of each partition the checker wants every record from offset 0 on, in the order in which a
consumer got them. It knows these violations:

    hole            an offset is missing, repeated or out of order
    corrupt         a record whose checksum does not match
    invented        a record that nobody sent, or in another partition than it was sent to
    lost            acknowledged, and nowhere
    moved           acknowledged at one offset, found at another
    duplicate       twice in the log, though its writer is idempotent
    reordered       not in the order of its writer's sends, though its writer keeps order
    refused         an idempotent writer that never stops trying was told that a record failed, or stopped for good
    changed         a reader saw another record at an offset than is there in the end

An acknowledgement without an offset (acks=0) promises nothing: such records are counted, not missed.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tests.chaos.payload import Numbered

NOT_ACKNOWLEDGED: Final = -1
EXAMPLES_MAX: Final = 10  # Of each kind of violation; the rest is counted.


class Stored(NamedTuple):
    """A record as a consumer got it: None where its checksum did not match."""

    offset: int
    record: Numbered | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What a writer's settings make it expect of the log."""

    is_idempotent: bool
    keeps_order: bool


@dataclass(slots=True, kw_only=True)
class WriterHistory:
    """One writer's sends, by partition. `offsets[partition][number]` is where the record was acknowledged."""

    writer: int
    promise: Promise
    offsets: dict[int, "array[int]"] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    fatal: str | None = None

    def send(self, partition: int) -> Numbered:
        """The next record of a partition."""
        offsets = self.offsets.setdefault(partition, array("q"))
        offsets.append(NOT_ACKNOWLEDGED)
        return Numbered(self.writer, partition, len(offsets) - 1)

    def acknowledge(self, record: Numbered, offset: int) -> None:
        self.offsets[record.partition][record.number] = offset

    @property
    def sent_count(self) -> int:
        return sum(map(len, self.offsets.values()))

    @property
    def acknowledged_count(self) -> int:
        return sum(offset != NOT_ACKNOWLEDGED for offsets in self.offsets.values() for offset in offsets)


@dataclass(slots=True, kw_only=True)
class Findings:
    """Violations by kind, with a few examples of each."""

    violations: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def violate(self, kind: str, what: str) -> None:
        self.violations[kind] += 1
        if self.violations[kind] <= EXAMPLES_MAX:
            self.examples.append(f"{kind}: {what}")

    @property
    def found(self) -> str:
        return f"violations: {dict(self.violations) or 'none'}"

    @property
    def summary(self) -> str:
        return self.found

    def require_clean(self) -> None:
        assert not self.violations, "\n".join([self.summary, *self.examples])


@dataclass(slots=True, kw_only=True)
class Verdict(Findings):
    sent: int = 0
    acknowledged: int = 0
    stored: int = 0
    repeated: int = 0
    """Records that are in the log more than once and may be: their writer is not idempotent."""
    absent: int = 0
    """Records that are nowhere and may be: nobody acknowledged them."""

    @property
    def summary(self) -> str:
        counts = f"{self.sent} sent, {self.acknowledged} acknowledged, {self.stored} stored"
        tolerated = f"{self.repeated} repeated without idempotence, {self.absent} absent unacknowledged"
        return f"{counts}, {tolerated}, {self.found}"


def judge(
    writers: Iterable[WriterHistory],
    logs: Mapping[int, Sequence[Stored]],
    reads: Iterable[tuple[int, Stored]] = (),
) -> Verdict:
    """`logs` is the final content by partition; `reads` what readers saw meanwhile, as (partition, stored)."""
    verdict = Verdict()
    by_number = {history.writer: history for history in writers}
    positions = {partition: _judge_log(partition, log, by_number, verdict) for partition, log in logs.items()}
    for history in by_number.values():
        _judge_writer(history, positions, verdict)
    _judge_reads(reads, logs, verdict)
    return verdict


def _judge_log(
    partition: int, log: Sequence[Stored], writers: Mapping[int, WriterHistory], verdict: Verdict
) -> dict[Numbered, list[int]]:
    """Checks the log by itself and returns where each record is."""
    positions: dict[Numbered, list[int]] = {}
    for expected, (offset, record) in enumerate(log):
        where = f"partition {partition} offset {offset}"
        if offset != expected:
            verdict.violate("hole", f"{where}, where {expected} should be")
        if record is None:
            verdict.violate("corrupt", where)
        elif not _was_sent(record, partition, writers):
            verdict.violate("invented", f"{where}: {record}")
        else:
            positions.setdefault(record, []).append(offset)
    verdict.stored += len(log)
    return positions


def _was_sent(record: Numbered, partition: int, writers: Mapping[int, WriterHistory]) -> bool:
    history = writers.get(record.writer)
    return (
        history is not None
        and record.partition == partition
        and record.number < len(history.offsets.get(partition, ()))
    )


def _judge_writer(
    history: WriterHistory, positions: Mapping[int, Mapping[Numbered, list[int]]], verdict: Verdict
) -> None:
    for partition, acknowledged in history.offsets.items():
        found = positions.get(partition, {})
        last_offset = -1
        for number, offset in enumerate(acknowledged):
            record = Numbered(history.writer, partition, number)
            at = found.get(record, [])
            _judge_record(history, record, offset, at, verdict)
            if at and history.promise.keeps_order:
                if at[0] < last_offset:
                    verdict.violate("reordered", f"{record} at {at[0]}, its predecessor at {last_offset}")
                last_offset = at[0]
    verdict.sent += history.sent_count
    verdict.acknowledged += history.acknowledged_count
    if history.promise.is_idempotent:
        for failure in history.failures:
            verdict.violate("refused", f"writer {history.writer}: {failure}")
    if history.fatal is not None:
        verdict.violate("refused", f"writer {history.writer} stopped: {history.fatal}")


def _judge_record(
    history: WriterHistory, record: Numbered, acknowledged_offset: int, at: Sequence[int], verdict: Verdict
) -> None:
    if acknowledged_offset == NOT_ACKNOWLEDGED:
        verdict.absent += not at
    elif not at:
        verdict.violate("lost", f"{record}, acknowledged at {acknowledged_offset}")
    elif acknowledged_offset not in at:
        verdict.violate("moved", f"{record}, acknowledged at {acknowledged_offset}, found at {at}")
    if len(at) > 1:
        verdict.repeated += not history.promise.is_idempotent
        if history.promise.is_idempotent:
            verdict.violate("duplicate", f"{record} at {at}")


def _judge_reads(reads: Iterable[tuple[int, Stored]], logs: Mapping[int, Sequence[Stored]], verdict: Verdict) -> None:
    by_offset = {partition: dict(log) for partition, log in logs.items()}
    for partition, seen in reads:
        final = by_offset.get(partition, {}).get(seen.offset)
        if final != seen.record:
            verdict.violate("changed", f"partition {partition} offset {seen.offset}: read {seen.record}, now {final}")
