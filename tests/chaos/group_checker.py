"""Judges a group that reads at least once while its members and its broker are harmed. Nothing here does any I/O.

unprocessed     a record that no member processed
invented        an offset was processed that is not in the topic
went back       a committed offset became smaller
beyond          an offset is committed behind what was processed
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tests.chaos.checker import Findings


@dataclass(slots=True, kw_only=True)
class GroupVerdict(Findings):
    record_count: int = 0
    processed_count: int = 0
    repeated_count: int = 0
    """Processed more than once, as at-least-once may."""
    sample_count: int = 0

    @property
    def summary(self) -> str:
        counts = f"{self.record_count} records, {self.repeated_count} processed again"
        return f"{counts}, committed offsets seen {self.sample_count} times, {self.found}"


def judge_group(
    end_offsets: Mapping[int, int],
    processed: Iterable[tuple[int, int]],
    samples: Iterable[Mapping[int, int]],
) -> GroupVerdict:
    """`processed` are (partition, offset); `samples` the committed offsets by partition, in the order of their time."""
    verdict = GroupVerdict(record_count=sum(end_offsets.values()))
    seen: set[tuple[int, int]] = set()
    for partition, offset in processed:
        if offset >= end_offsets.get(partition, 0):
            verdict.violate("invented", f"partition {partition} offset {offset}")
        verdict.processed_count += 1
        verdict.repeated_count += (partition, offset) in seen
        seen.add((partition, offset))
    for partition, end_offset in end_offsets.items():
        for offset in range(end_offset):
            if (partition, offset) not in seen:
                verdict.violate("unprocessed", f"partition {partition} offset {offset}")
    _judge_samples(samples, end_offsets, verdict)
    return verdict


def _judge_samples(samples: Iterable[Mapping[int, int]], end_offsets: Mapping[int, int], verdict: GroupVerdict) -> None:
    latest: dict[int, int] = {}
    for sample in samples:
        verdict.sample_count += 1
        for partition, offset in sample.items():
            if offset < latest.get(partition, 0):
                verdict.violate("went back", f"partition {partition} from {latest[partition]} to {offset}")
            if offset > end_offsets.get(partition, 0):
                verdict.violate("beyond", f"partition {partition}: {offset}, its end is {end_offsets.get(partition)}")
            latest[partition] = offset
