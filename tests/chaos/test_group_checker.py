"""The judge of groups is judged first: each violation is put into a clean run, and must be the one that is found."""

import pytest

from tests.chaos.group_checker import judge_group

END_OFFSETS = {0: 4, 1: 2}
PROCESSED = [(0, 0), (0, 1), (1, 0), (0, 2), (0, 3), (1, 1)]
SAMPLES = [{0: 0, 1: 0}, {0: 2, 1: 0}, {0: 2, 1: 2}, {0: 4, 1: 2}]


def test_a_clean_run_has_no_violations() -> None:
    verdict = judge_group(END_OFFSETS, [*PROCESSED, (0, 3)], SAMPLES)
    verdict.require_clean()
    counts = (verdict.record_count, verdict.processed_count, verdict.repeated_count, verdict.sample_count)
    assert counts == (6, 7, 1, 4)


@pytest.mark.parametrize("left_out", PROCESSED)
def test_what_nobody_processed_is_found(left_out: tuple[int, int]) -> None:
    others = [each for each in PROCESSED if each != left_out]
    assert judge_group(END_OFFSETS, others, SAMPLES).violations == {"unprocessed": 1}


@pytest.mark.parametrize("invented", [(0, 4), (2, 0)])
def test_what_is_not_there_cannot_be_processed(invented: tuple[int, int]) -> None:
    assert judge_group(END_OFFSETS, [*PROCESSED, invented], SAMPLES).violations == {"invented": 1}


def test_a_committed_offset_that_goes_back_is_found() -> None:
    """Also when it comes back at once, and when all that is left of it is nothing."""
    samples = [*SAMPLES[:3], {0: 1, 1: 0}, SAMPLES[3]]
    assert judge_group(END_OFFSETS, PROCESSED, samples).violations == {"went back": 2}


def test_nothing_is_committed_behind_the_end() -> None:
    assert judge_group(END_OFFSETS, PROCESSED, [{0: 5}]).violations == {"beyond": 1}
