"""Between the question to the coordinator and the append: who may still write."""

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.log.producer_state import Producer, ProducerBatch
from ottla.replica.transaction_guards import GUARDS_MAX, Guard, TransactionGuards

PRODUCER = 7


def refusal(guards: TransactionGuards, guard: Guard, sequence: int, producer: Producer | None = None) -> ErrorCode:
    try:
        guards.check(guard, PRODUCER, sequence, producer)
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


def test_the_first_batch_and_its_repetition_may_be_written() -> None:
    guards = TransactionGuards()
    guard = guards.enter(PRODUCER, 0, 10)
    assert guards.enter(PRODUCER, 0, 10) is guard
    assert refusal(guards, guard, 10) is ErrorCode.NONE


def test_a_later_batch_must_not_be_the_first() -> None:
    guards = TransactionGuards()
    guards.enter(PRODUCER, 0, 10)
    guard = guards.enter(PRODUCER, 0, 15)
    assert refusal(guards, guard, 15) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_earlier_batch_that_arrives_later_becomes_the_first() -> None:
    guards = TransactionGuards()
    guards.enter(PRODUCER, 0, 15)
    guard = guards.enter(PRODUCER, 0, 10)
    assert refusal(guards, guard, 10) is ErrorCode.NONE
    assert refusal(guards, guard, 15) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_where_the_log_knows_the_producer_it_says_what_comes_next() -> None:
    guards = TransactionGuards()
    guards.enter(PRODUCER, 0, 10)
    guard = guards.enter(PRODUCER, 0, 15)
    known = Producer(0, batches=[ProducerBatch(0, 14, 0, 14, 0)])
    assert refusal(guards, guard, 15, known) is ErrorCode.NONE
    assert refusal(guards, guard, 15, Producer(0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_what_was_appended_needs_no_guard_any_more() -> None:
    guards = TransactionGuards()
    guard = guards.enter(PRODUCER, 0, 10)
    guards.leave(guard, PRODUCER)
    assert guards.enter(PRODUCER, 0, 15) is not guard


@pytest.mark.parametrize(
    ("marker_epoch", "is_epoch_raised", "is_void"),
    [(2, False, False), (3, False, True), (4, False, True), (3, True, False), (4, True, True)],
)
def test_a_marker_takes_the_right_of_what_it_ends(marker_epoch: int, is_epoch_raised: bool, is_void: bool) -> None:
    """With a raised epoch it ends what is older: a guard with its own epoch belongs to the next transaction."""
    guards = TransactionGuards()
    guard = guards.enter(PRODUCER, 3, 0)
    guards.void(PRODUCER, marker_epoch, is_epoch_raised=is_epoch_raised)
    assert refusal(guards, guard, 0) is (ErrorCode.INVALID_TXN_STATE if is_void else ErrorCode.NONE)


def test_a_newer_epoch_takes_over() -> None:
    guards = TransactionGuards()
    old = guards.enter(PRODUCER, 3, 0)
    new = guards.enter(PRODUCER, 4, 0)
    assert refusal(guards, old, 0) is ErrorCode.INVALID_TXN_STATE
    guards.leave(old, PRODUCER)
    assert refusal(guards, new, 0) is ErrorCode.NONE


def test_who_waited_when_leadership_ended_comes_again() -> None:
    guards = TransactionGuards()
    guard = guards.enter(PRODUCER, 0, 0)
    guards.close()
    assert refusal(guards, guard, 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refusal(guards, guards.enter(PRODUCER, 0, 0), 0) is ErrorCode.NONE


def test_an_old_epoch_does_not_take_back() -> None:
    guards = TransactionGuards()
    new = guards.enter(PRODUCER, 4, 0)
    assert guards.enter(PRODUCER, 3, 0) is new


def test_guards_are_bounded() -> None:
    guards = TransactionGuards()
    first = guards.enter(PRODUCER, 0, 0)
    for number in range(GUARDS_MAX):
        guards.enter(1_000 + number, 0, 0)
    assert refusal(guards, first, 0) is ErrorCode.INVALID_TXN_STATE
