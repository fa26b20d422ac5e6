"""What the machine knows of its log: epochs, ends, voters, held to a plain list of records."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.raft.log_view import EpochStart, LogBatch, LogView
from ottla.raft.messages import EpochEnd, SnapshotId
from sim.raft_cluster import voter_set
from tests.unit.raft.machines import batch, log_of

VOTERS = voter_set(1, 2, 3)
EPOCHS = st.lists(st.integers(1, 6), max_size=12).map(sorted)


@given(EPOCHS, st.integers(0, 7))
def test_the_end_of_an_epoch_is_where_the_first_larger_one_begins(epochs: list[int], epoch: int) -> None:
    end = log_of(epochs, VOTERS).end_of_epoch(epoch)
    not_larger = [each for each in epochs if each <= epoch]
    assert end == EpochEnd(max(not_larger, default=0), len(not_larger))


@given(EPOCHS, st.integers(0, 12), st.integers(0, 12))
def test_a_truncated_log_is_as_if_the_rest_had_never_been_appended(epochs: list[int], to: int, start: int) -> None:
    to = min(to, len(epochs))
    log = log_of(epochs, VOTERS)
    log.truncate(to)
    expected = log_of(epochs[:to], VOTERS)
    assert [log.epoch_before(offset) for offset in range(to + 1)] == [
        expected.epoch_before(offset) for offset in range(to + 1)
    ]
    assert log.durable_end == expected.durable_end


@given(EPOCHS, st.integers(1, 12))
def test_a_log_without_its_beginning_still_knows_the_epoch_before_its_start(epochs: list[int], start: int) -> None:
    if start > len(epochs):
        return
    log = log_of(epochs, VOTERS)
    log.on_snapshot(SnapshotId(start, epochs[start - 1]), start)
    installed = log_of(epochs[start:], VOTERS, snapshot=SnapshotId(start, epochs[start - 1]))
    for offset in range(start, len(epochs) + 1):
        assert log.epoch_before(offset) == epochs[offset - 1] == installed.epoch_before(offset)
    for epoch in range(epochs[start - 1], 8):
        assert log.end_of_epoch(epoch) == installed.end_of_epoch(epoch)


def test_voter_sets_come_and_go_with_their_records() -> None:
    log = LogView(VOTERS)
    log.append(batch(0, 1, voters=voter_set(1, 2)))
    log.append(batch(1, 1))
    log.append(batch(2, 1, voters=voter_set(1)))
    assert log.voters.latest == voter_set(1)
    assert log.voters.before(2) == voter_set(1, 2)
    log.truncate(2)
    assert log.voters.latest == voter_set(1, 2)
    log.on_flushed(2, log.truncation_count)
    log.on_snapshot(SnapshotId(2, 1), 2)
    log.append(batch(2, 1, voters=voter_set(1, 2, 3)))
    log.truncate(2)
    assert log.voters.latest == voter_set(1, 2), "the set before the log's start stays"
    log.truncate(2)
    assert log.voters.latest == voter_set(1, 2)


def test_up_to_date_is_by_epoch_and_then_by_length() -> None:
    log = log_of([1, 1, 3], VOTERS)
    assert log.is_covered_by(EpochEnd(3, 3))
    assert log.is_covered_by(EpochEnd(4, 1))
    assert not log.is_covered_by(EpochEnd(3, 2))
    assert not log.is_covered_by(EpochEnd(2, 9))


def test_a_log_may_reach_back_behind_its_snapshot() -> None:
    view = LogView(VOTERS)
    view.restart_at(SnapshotId(10, 3), VOTERS)
    view.reach_back(4, [EpochStart(2, 4), EpochStart(3, 7)])
    assert (view.log_start_offset, view.log_end_offset) == (4, 10)
    assert view.end_of_epoch(2) == EpochEnd(2, 7)
    assert view.first_epoch == 2
    view.append(LogBatch(base_offset=10, record_count=1, epoch=4))
    assert view.end_of_epoch(3) == EpochEnd(3, 10)


def test_a_log_that_is_empty_behind_its_snapshot_knows_the_epoch_of_that() -> None:
    view = LogView(VOTERS)
    view.restart_at(SnapshotId(10, 3), VOTERS)
    view.reach_back(10, [EpochStart(5, 10)])
    assert view.durable_end == EpochEnd(3, 10)
