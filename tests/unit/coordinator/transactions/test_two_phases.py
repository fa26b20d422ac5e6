"""Transactions that somebody else decides upon (KIP-939): they outlive their producer, and whoever comes back ends them."""

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NO_EPOCH, NO_PRODUCER_ID
from ottla.coordinator.machine import ProducerIdentity
from ottla.coordinator.transactions.producer_epochs import EPOCH_MAX, LAST_USABLE_EPOCH
from ottla.coordinator.transactions.requests import InitProducer, Needs
from ottla.coordinator.transactions.transaction import TWO_PHASE_TIMEOUT_MS, Transaction, TransactionState
from tests.unit.coordinator.transactions.support import ID, ORDERS, STOCK, TIMEOUT_MS, TWO_PHASE_MS_MAX, Coordinator

OUTCOMES = pytest.mark.parametrize("is_commit", [True, False])


def left_open(coordinator: Coordinator) -> ProducerIdentity:
    producer = coordinator.init(timeout_ms=TWO_PHASE_TIMEOUT_MS).identity
    coordinator.add(producer)
    return producer


def come_back(coordinator: Coordinator) -> Transaction:
    return coordinator.init(timeout_ms=TWO_PHASE_TIMEOUT_MS, keeps_open=True)


def code_of_end(coordinator: Coordinator, producer: ProducerIdentity, *, is_commit: bool = True) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        coordinator.end(producer, is_commit=is_commit)
    return caught.value.code


@OUTCOMES
def test_whoever_comes_back_ends_what_was_left_open(is_commit: bool) -> None:
    coordinator = Coordinator()
    left = left_open(coordinator)
    kept = come_back(coordinator)
    assert (kept.state, kept.identity, kept.partitions) == (TransactionState.ONGOING, left, (ORDERS,))
    assert kept.client == (left.producer_id, left.epoch + 1)
    coordinator.reload()
    assert coordinator.transaction == kept
    ended = coordinator.end(kept.client, is_commit=is_commit)
    assert ended.identity == (left.producer_id, left.epoch + 2)  # What the markers carry, above all before it.
    coordinator.complete()
    assert coordinator.state is (TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT)
    assert coordinator.transaction.identity == coordinator.transaction.client == ended.client
    coordinator.add(ended.client)


@OUTCOMES
def test_the_end_is_answered_again_and_never_turned_round(is_commit: bool) -> None:
    coordinator = Coordinator()
    left_open(coordinator)
    back = come_back(coordinator).client
    ended = coordinator.end(back, is_commit=is_commit)
    coordinator.complete()
    coordinator.reload()
    assert coordinator.end(back, is_commit=is_commit).client == ended.client
    assert code_of_end(coordinator, back, is_commit=not is_commit) is ErrorCode.INVALID_TXN_STATE


def test_it_may_come_back_as_often_as_it_likes_and_only_the_last_one_counts() -> None:
    coordinator = Coordinator()
    left = left_open(coordinator)
    first, second = come_back(coordinator).client, come_back(coordinator).client
    assert second.epoch == first.epoch + 1
    assert coordinator.transaction.identity == left
    for fenced in (left, first):
        assert code_of_end(coordinator, fenced) is ErrorCode.PRODUCER_FENCED
    coordinator.end(second)


def test_who_comes_back_may_only_end() -> None:
    coordinator = Coordinator()
    left = left_open(coordinator)
    back = come_back(coordinator).client
    for producer, code in ((back, ErrorCode.INVALID_TXN_STATE), (left, ErrorCode.PRODUCER_FENCED)):
        for ask in (lambda who: coordinator.add(who, STOCK), lambda who: coordinator.machine.verify(ID, who)):
            with pytest.raises(ApiError) as caught:
                ask(producer)
            assert caught.value.code is code


def test_nothing_open_is_nothing_to_keep() -> None:
    coordinator = Coordinator()
    coordinator.init()
    assert not come_back(coordinator).is_taken_over
    assert coordinator.state is TransactionState.EMPTY


def test_who_starts_without_keeping_aborts_also_what_was_kept() -> None:
    coordinator = Coordinator()
    left_open(coordinator)
    back = come_back(coordinator).client
    aborting = coordinator.init()
    assert aborting.state is TransactionState.PREPARE_ABORT
    assert aborting.producer_epoch > back.epoch
    coordinator.complete()
    assert code_of_end(coordinator, back) is ErrorCode.PRODUCER_FENCED
    assert coordinator.init().producer_epoch > aborting.producer_epoch


# -- epochs that run out ----------------------------------------------------------------------------------------------


def kept_with_a_new_producer_id(coordinator: Coordinator) -> tuple[ProducerIdentity, ProducerIdentity]:
    last = coordinator.at_epoch(LAST_USABLE_EPOCH)
    coordinator.add(last)
    request = InitProducer(transactional_id=ID, timeout_ms=TIMEOUT_MS, keeps_open=True)
    assert coordinator.machine.decide_init(request, None, 0).reply is Needs.PRODUCER_ID
    kept = come_back(coordinator)
    assert kept.identity == last
    assert kept.client.producer_id != last.producer_id
    assert kept.client.epoch == 0
    return last, kept.client


@OUTCOMES
def test_used_up_epochs_give_who_comes_back_a_new_producer_id(is_commit: bool) -> None:
    coordinator = Coordinator()
    last, back = kept_with_a_new_producer_id(coordinator)
    ended = coordinator.end(back, is_commit=is_commit)
    assert ended.identity == (last.producer_id, EPOCH_MAX)
    coordinator.reload()
    coordinator.complete()
    assert coordinator.transaction.identity == (back.producer_id, 1)
    assert (coordinator.transaction.next_producer_id, coordinator.transaction.next_producer_epoch) == (
        NO_PRODUCER_ID,
        NO_EPOCH,
    )
    assert coordinator.end(back, is_commit=is_commit).identity == (back.producer_id, 1)


def test_an_abort_by_the_next_one_leaves_the_new_producer_id_to_it() -> None:
    coordinator = Coordinator()
    last, back = kept_with_a_new_producer_id(coordinator)
    assert coordinator.init().identity == (last.producer_id, EPOCH_MAX)
    coordinator.complete()
    assert coordinator.init().identity == (back.producer_id, 2)


def test_the_last_epoch_of_who_came_back_ends_with_a_new_producer_id() -> None:
    coordinator = Coordinator()
    before_last = coordinator.at_epoch(LAST_USABLE_EPOCH - 1)
    coordinator.add(before_last)
    back = come_back(coordinator).client
    assert back == (before_last.producer_id, LAST_USABLE_EPOCH)
    ended = coordinator.end(back)
    assert ended.identity == (before_last.producer_id, EPOCH_MAX)
    assert ended.client.epoch == 0
    coordinator.complete()
    assert coordinator.transaction.identity == ended.client
    assert coordinator.end(back).identity == ended.client


# -- time -------------------------------------------------------------------------------------------------------------


def test_it_outlives_any_time_out_but_not_for_ever() -> None:
    coordinator = Coordinator()
    left_open(coordinator)
    assert coordinator.transaction.is_two_phase
    just_in_time = coordinator.now_ms + TWO_PHASE_MS_MAX - 1
    assert coordinator.machine.overdue(just_in_time) == []
    assert coordinator.machine.overdue(just_in_time + 1) == [ID]
    coordinator.apply(coordinator.machine.decide_timeout(ID, just_in_time + 1))
    assert coordinator.state is TransactionState.PREPARE_ABORT


def test_coming_back_neither_shortens_nor_prolongs_its_life() -> None:
    coordinator = Coordinator()
    left_open(coordinator)
    started_ms = coordinator.transaction.started_ms
    coordinator.now_ms += 10 * TIMEOUT_MS
    coordinator.init(timeout_ms=TIMEOUT_MS, keeps_open=True)
    assert coordinator.machine.overdue(coordinator.now_ms) == []
    assert coordinator.machine.overdue(started_ms + TWO_PHASE_MS_MAX) == [ID]


def test_an_ordinary_transaction_that_is_kept_still_times_out() -> None:
    coordinator = Coordinator()
    coordinator.ongoing()
    coordinator.init(keeps_open=True)
    assert coordinator.machine.overdue(coordinator.now_ms + TIMEOUT_MS) == [ID]


# -- version 1 --------------------------------------------------------------------------------------------------------


def test_a_client_of_version_1_that_comes_back_goes_on_with_the_epoch_it_was_given() -> None:
    coordinator = Coordinator()
    left = left_open(coordinator)
    back = come_back(coordinator).client
    assert coordinator.end(back, client_version=0).identity == left  # What the markers carry.
    coordinator.complete()
    assert coordinator.transaction.identity == coordinator.transaction.client == back
    coordinator.add(back)
