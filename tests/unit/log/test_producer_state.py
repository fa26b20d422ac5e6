"""The sequence rules, first by example (scene 10), then against a model that remembers everything."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import ApiError, ErrorCode
from ottla.log.producer_state import ProducerBatch, ProducerState
from ottla.wire.batch import SEQUENCE_MAX

PRODUCER = 7


def send(state: ProducerState, base_sequence: int, count: int = 1, *, epoch: int = 0, offset: int = 0) -> str:
    """What a leader does with a batch: the outcome in one word."""
    last_sequence = (base_sequence + count - 1) & SEQUENCE_MAX
    try:
        duplicate = state.check(PRODUCER, epoch, base_sequence, last_sequence, False)
    except ApiError as error:
        return error.code.name
    if duplicate is not None:
        return f"duplicate of {duplicate.base_offset}"
    state.update(PRODUCER, epoch, ProducerBatch(base_sequence, last_sequence, offset, offset + count - 1, 1000))
    return "appended"


def test_the_next_sequence_is_accepted_a_repetition_acknowledged_a_gap_refused() -> None:
    state = ProducerState()
    assert send(state, 0, 3, offset=100) == "appended"
    assert send(state, 3, 2, offset=103) == "appended"
    assert send(state, 3, 2, offset=105) == "duplicate of 103"
    assert send(state, 0, 3, offset=105) == "duplicate of 100"
    assert send(state, 6, 1, offset=105) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert send(state, 5, 1, offset=105) == "appended"


def test_the_last_five_batches_are_remembered() -> None:
    state = ProducerState()
    for sequence in range(7):
        assert send(state, sequence, offset=sequence) == "appended"
    assert [send(state, sequence) for sequence in range(2, 7)] == [f"duplicate of {n}" for n in range(2, 7)]
    assert send(state, 1) == "OUT_OF_ORDER_SEQUENCE_NUMBER"


def test_a_batch_of_other_bounds_is_no_repetition() -> None:
    state = ProducerState()
    send(state, 0, 3)
    assert send(state, 0, 2) == "OUT_OF_ORDER_SEQUENCE_NUMBER"


def test_without_state_any_first_sequence_is_accepted() -> None:
    state = ProducerState()
    assert send(state, 41) == "appended"
    assert send(state, 43) == "OUT_OF_ORDER_SEQUENCE_NUMBER"


def test_a_new_epoch_starts_at_zero_and_an_old_one_is_refused() -> None:
    state = ProducerState()
    send(state, 0, 5)
    assert send(state, 5, epoch=1) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert send(state, 0, epoch=1) == "appended"
    assert send(state, 5, epoch=0) == "INVALID_PRODUCER_EPOCH"


def test_sequences_wrap_to_zero() -> None:
    state = ProducerState()
    assert send(state, SEQUENCE_MAX - 1, 4, offset=10) == "appended"  # ..., 2^31-2, 2^31-1, 0, 1
    assert send(state, SEQUENCE_MAX - 1, 4) == "duplicate of 10"
    assert send(state, 2) == "appended"


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 3), st.integers(0, 2)), max_size=60))
def test_agrees_with_a_model_that_remembers_everything(batches: list[tuple[int, int, int]]) -> None:
    state = ProducerState()
    current_epoch, written = -1, []  # (base sequence, count, offset) of the current epoch
    for offset, (base_sequence, count, epoch) in enumerate(batches):
        outcome = send(state, base_sequence, count, epoch=epoch, offset=offset)
        next_sequence = written[-1][0] + written[-1][1] if written else 0
        repeated = [at for first, length, at in written[-5:] if (first, length) == (base_sequence, count)]
        if current_epoch == -1 or (epoch > current_epoch and base_sequence == 0):
            current_epoch, written = epoch, [(base_sequence, count, offset)]
            assert outcome == "appended"
        elif epoch < current_epoch:
            assert outcome == "INVALID_PRODUCER_EPOCH"
        elif epoch == current_epoch and base_sequence == next_sequence:
            written.append((base_sequence, count, offset))
            assert outcome == "appended"
        elif epoch == current_epoch and repeated:
            assert outcome == f"duplicate of {repeated[0]}"
        else:
            assert outcome == "OUT_OF_ORDER_SEQUENCE_NUMBER"


def test_silent_producers_expire() -> None:
    state = ProducerState()
    state.update(1, 0, ProducerBatch(0, 0, 0, 0, 1000))
    state.update(2, 0, ProducerBatch(0, 0, 1, 1, 5000))
    state.update(3, 0, ProducerBatch(0, 0, 2, 2, 1000), True)  # With a transaction open.
    assert state.expire(6000, 5000) == [1]
    assert sorted(state.producers) == [2, 3]


def test_an_open_transaction_holds_back_what_is_stable() -> None:
    state = ProducerState()
    state.update(1, 0, ProducerBatch(0, 0, 10, 10, 1000), True)
    state.update(2, 0, ProducerBatch(0, 0, 11, 11, 1000), True)
    assert state.first_unstable_offset(high_watermark=20) == 10
    done = state.complete(1, 0, coordinator_epoch=1, offset=12, timestamp=1001, is_aborted=True)
    assert done is not None
    assert (done.first_offset, done.last_offset, state.last_stable_after(done)) == (10, 12, 11)
    assert state.first_unstable_offset(high_watermark=12) == 10, "the marker itself is not replicated yet"
    assert state.first_unstable_offset(high_watermark=13) == 11
    state.complete(2, 0, coordinator_epoch=1, offset=13, timestamp=1001, is_aborted=False)
    assert state.first_unstable_offset(high_watermark=14) is None


def test_a_marker_for_nothing_completes_nothing() -> None:
    state = ProducerState()
    assert state.complete(1, 0, coordinator_epoch=1, offset=5, timestamp=1, is_aborted=True) is None
    assert send(state, 0) == "appended"


def test_writing_outside_an_open_transaction_is_refused() -> None:
    state = ProducerState()
    state.update(PRODUCER, 0, ProducerBatch(0, 0, 0, 0, 1000), True)
    with pytest.raises(ApiError) as refused:
        state.check(PRODUCER, 0, 1, 1, False)
    assert refused.value.code is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize(
    ("epoch", "is_epoch_raised", "outcome"),
    [
        (4, False, ErrorCode.INVALID_PRODUCER_EPOCH),
        (5, False, True),  # The end, or an administrator's abort.
        (5, True, ErrorCode.INVALID_PRODUCER_EPOCH),  # The end of the transaction before, once more.
        (6, True, True),
    ],
)
def test_a_marker_ends_the_transaction_that_is_open(
    epoch: int, is_epoch_raised: bool, outcome: ErrorCode | bool
) -> None:
    state = ProducerState()
    state.update(1, 5, ProducerBatch(0, 0, 0, 0, 0), is_transactional=True)
    assert checked_marker(state, epoch, is_epoch_raised) == outcome


@pytest.mark.parametrize(
    ("epoch", "is_epoch_raised", "outcome"),
    [
        (4, True, ErrorCode.INVALID_PRODUCER_EPOCH),
        (5, True, False),  # The same marker once more.
        (5, False, True),
        (6, True, True),  # Nothing was written, but nothing with the older epoch may follow.
    ],
)
def test_a_marker_where_nothing_is_open(epoch: int, is_epoch_raised: bool, outcome: ErrorCode | bool) -> None:
    state = ProducerState()
    state.complete(1, 5, coordinator_epoch=0, offset=0, timestamp=0, is_aborted=False)
    assert checked_marker(state, epoch, is_epoch_raised) == outcome


def test_a_marker_of_a_coordinator_that_was_replaced_is_refused() -> None:
    state = ProducerState()
    state.complete(1, 5, coordinator_epoch=3, offset=0, timestamp=0, is_aborted=False)
    assert checked_marker(state, 6, True, coordinator_epoch=2) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert checked_marker(state, 6, True, coordinator_epoch=3) is True


def checked_marker(
    state: ProducerState, epoch: int, is_epoch_raised: bool, *, coordinator_epoch: int = 0
) -> ErrorCode | bool:
    try:
        return state.check_marker(1, epoch, coordinator_epoch=coordinator_epoch, is_epoch_raised=is_epoch_raised)
    except ApiError as error:
        return error.code
