"""Estimates of bytes between offsets, against logs whose bytes are known."""

import random
from bisect import bisect_right
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.types import Offset
from ottla.spark.byte_profile import ByteProfile, Look, flat_profile, measure, reach

SOFT = 0.25
LOOK_BYTES = 64 << 10


class Log:
    """Batches of (first offset, next offset, bytes), and how many looks were taken at them."""

    def __init__(self, batches: list[tuple[Offset, Offset, int]]) -> None:
        self.batches = batches
        self.looks = 0
        self._ends = [end for _, end, _ in batches]
        self._before = [0, *accumulate(size for _, _, size in batches)]

    @property
    def end(self) -> Offset:
        return self._ends[-1]

    def look_at(self, offset: Offset) -> Look:
        self.looks += 1
        index = last = bisect_right(self._ends, offset)
        while last + 1 < len(self.batches) and self._before[last + 1] - self._before[index] < LOOK_BYTES:
            last += 1
        size = self._before[last + 1] - self._before[index]
        return Look(min(offset, self.batches[index][0]), self._ends[last], size)

    def bytes_between(self, low: Offset, high: Offset) -> float:
        total = 0.0
        for first, end, size in self.batches:
            overlap = min(high, end) - max(low, first)
            total += size * max(0, overlap) / (end - first)
        return total


def log_of(kind: str) -> Log:
    chance = random.Random(kind)
    batches, offset = [], 0
    for number in range(4_000):
        records, size, gap = chance.randrange(1, 200), 100, 0
        match kind:
            case "growing":  # The records get larger all the time.
                size = 50 + number
            case "step":  # A new version of the producer sends a hundred times as much.
                size = 10_000 if number > 2_500 else 100
            case "compacted":  # Compaction got as far as half of it, and left one batch in fifty offsets' worth.
                gap = 50 * records if number < 2_000 else 0
            case "compressed":  # Batch by batch, as well as its records let themselves be compressed.
                size = chance.choice((5, 20, 100))
        batches.append((offset, offset + records, records * size + 61))
        offset += records + gap
    return Log(batches)


KINDS = ["steady", "growing", "step", "compacted", "compressed"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_whole_is_known_within_a_quarter(kind: str) -> None:
    log = log_of(kind)
    profile = measure(0, log.end, log.look_at)
    assert profile.total_bytes == pytest.approx(log.bytes_between(0, log.end), rel=SOFT)
    assert log.looks < 150


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size_bytes", [300_000, 3_000_000])
@pytest.mark.parametrize("share_read", [0.0, 0.3, 0.6])
def test_a_cut_holds_the_bytes_asked_for_within_a_quarter(kind: str, size_bytes: int, share_read: float) -> None:
    log = log_of(kind)
    start = int(log.end * share_read)
    cut = reach(measure(start, log.end, log.look_at), size_bytes, log.look_at)
    expected = min(size_bytes, log.bytes_between(start, log.end))
    assert log.bytes_between(start, cut) == pytest.approx(expected, rel=SOFT)


def test_a_short_range_costs_one_look_and_is_exact() -> None:
    log = Log([(0, 10, 1000), (10, 20, 500)])
    assert measure(0, 20, log.look_at).total_bytes == 1500
    assert log.looks == 1


@given(st.floats(0, 2_000))
def test_an_offset_is_never_outside_the_range_nor_its_start(size_bytes: float) -> None:
    profile = ByteProfile([5, 10, 20], [0.0, 0.0, 1_000.0])
    assert 5 < profile.offset_at(size_bytes) <= 20


def test_a_flat_profile_is_a_straight_line() -> None:
    profile = flat_profile(100, 200, 10.0)
    assert (profile.total_bytes, profile.offset_at(250.0), profile.offset_at(5_000)) == (1_000.0, 125, 200)
