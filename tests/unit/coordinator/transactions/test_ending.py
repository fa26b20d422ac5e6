"""EndTxn: a transaction is decided once, and only by whoever has it open."""

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NO_PRODUCER_ID
from ottla.coordinator.machine import ProducerIdentity
from ottla.coordinator.transactions.producer_epochs import EPOCH_MAX, LAST_USABLE_EPOCH
from ottla.coordinator.transactions.requests import EndTransaction, Needs
from ottla.coordinator.transactions.transaction import TransactionState
from tests.unit.coordinator.transactions.support import ID, ORDERS, STOCK, Coordinator

OUTCOMES = [(True, "COMMIT"), (False, "ABORT")]


def refused(
    code: ErrorCode, coordinator: Coordinator, producer: ProducerIdentity, *, is_commit: bool = True, version: int = 2
) -> None:
    before = coordinator.transaction
    with pytest.raises(ApiError) as caught:
        coordinator.end(producer, is_commit=is_commit, client_version=version)
    assert caught.value.code is code
    assert coordinator.transaction == before


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize(("is_commit", "name"), OUTCOMES)
def test_from_ongoing_to_complete(version: int, is_commit: bool, name: str) -> None:
    coordinator = Coordinator()
    producer = coordinator.ongoing()
    coordinator.add(producer, STOCK)
    prepared = coordinator.end(producer, is_commit=is_commit, client_version=version)
    assert prepared.state is TransactionState[f"PREPARE_{name}"]
    assert prepared.partitions == (ORDERS, STOCK)
    assert coordinator.decided == [ID]
    coordinator.complete()
    assert coordinator.state is TransactionState[f"COMPLETE_{name}"]
    assert coordinator.transaction.partitions == ()
    assert coordinator.transaction.producer_epoch == producer.epoch + (1 if version == 2 else 0)


@pytest.mark.parametrize("state", ["empty", "complete"])
def test_nothing_open_cannot_be_committed(state: str) -> None:
    coordinator = Coordinator()
    producer = coordinator.init().identity
    if state == "complete":
        coordinator.add(producer)
        producer = coordinator.end(producer).identity
        coordinator.complete()
    refused(ErrorCode.INVALID_TXN_STATE, coordinator, producer)


def test_an_unknown_id_and_another_producer_are_refused() -> None:
    coordinator = Coordinator()
    request = EndTransaction(transactional_id=ID, producer=ProducerIdentity(1, 0), is_commit=True, client_version=2)
    with pytest.raises(ApiError) as caught:
        coordinator.machine.decide_end(request, None, 0)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    producer = coordinator.ongoing()
    refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING, coordinator, ProducerIdentity(7, producer.epoch))


@pytest.mark.parametrize("version", [0, 2])
def test_a_fenced_producer_cannot_end_anything(version: int) -> None:
    coordinator = Coordinator()
    zombie = coordinator.init().identity
    coordinator.ongoing()
    refused(ErrorCode.PRODUCER_FENCED, coordinator, zombie, version=version)


# -- version 2: every end raises the epoch ----------------------------------------------------------------------------


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_repetition_is_answered_as_the_first_time(is_commit: bool) -> None:
    coordinator = Coordinator()
    producer = coordinator.ongoing()
    ended = coordinator.end(producer, is_commit=is_commit)
    refused(ErrorCode.CONCURRENT_TRANSACTIONS, coordinator, producer, is_commit=is_commit)
    coordinator.complete()
    assert coordinator.end(producer, is_commit=is_commit).identity == ended.identity
    coordinator.reload()
    assert coordinator.end(producer, is_commit=is_commit).identity == ended.identity


@pytest.mark.parametrize("is_complete", [True, False])
@pytest.mark.parametrize("is_commit", [True, False])
def test_a_decision_cannot_be_turned_round(is_commit: bool, is_complete: bool) -> None:
    coordinator = Coordinator()
    producer = coordinator.ongoing()
    coordinator.end(producer, is_commit=is_commit)
    if is_complete:
        coordinator.complete()
    refused(ErrorCode.INVALID_TXN_STATE, coordinator, producer, is_commit=not is_commit)


@pytest.mark.parametrize("delayed_commit", [True, False])
def test_a_delayed_end_never_ends_a_later_transaction(delayed_commit: bool) -> None:
    coordinator = Coordinator()
    producer = coordinator.ongoing()
    following = coordinator.end(producer, is_commit=delayed_commit).identity
    coordinator.complete()
    coordinator.add(following)
    refused(ErrorCode.PRODUCER_FENCED, coordinator, producer, is_commit=delayed_commit)
    assert coordinator.state is TransactionState.ONGOING


def test_a_delayed_write_joins_no_later_transaction() -> None:
    coordinator = Coordinator()
    producer = coordinator.ongoing()
    coordinator.end(producer)
    coordinator.complete()
    with pytest.raises(ApiError) as caught:
        coordinator.add(producer)
    assert caught.value.code is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("state", ["empty", "committed", "aborted"])
def test_an_abort_of_nothing_raises_the_epoch_all_the_same(state: str) -> None:
    """The producer's write may still be under way to a partition: with the old epoch it can join nothing."""
    coordinator = Coordinator()
    producer = coordinator.init().identity
    if state != "empty":
        coordinator.add(producer)
        producer = coordinator.end(producer, is_commit=state == "committed").identity
        coordinator.complete()
    coordinator.decided.clear()
    aborted = coordinator.end(producer, is_commit=False)
    assert aborted.state is TransactionState.COMPLETE_ABORT
    assert aborted.producer_epoch == producer.epoch + 1
    assert coordinator.decided == []
    assert coordinator.end(producer, is_commit=False).identity == aborted.identity


def test_the_next_epoch_must_wait_for_the_markers() -> None:
    coordinator = Coordinator()
    following = coordinator.end(coordinator.ongoing()).identity
    refused(ErrorCode.CONCURRENT_TRANSACTIONS, coordinator, following, is_commit=False)


def test_the_last_epoch_ends_with_a_new_producer_id() -> None:
    coordinator = Coordinator()
    last = coordinator.at_epoch(LAST_USABLE_EPOCH)
    coordinator.add(last)
    request = EndTransaction(transactional_id=ID, producer=last, is_commit=True, client_version=2)
    assert coordinator.machine.decide_end(request, None, 0).reply is Needs.PRODUCER_ID
    prepared = coordinator.end(last)
    assert prepared.identity == (last.producer_id, EPOCH_MAX)  # What the markers carry.
    assert prepared.renewed().producer_epoch == 0
    coordinator.complete()
    assert coordinator.transaction.identity == prepared.renewed().identity
    assert coordinator.transaction.next_producer_id == NO_PRODUCER_ID
    assert coordinator.end(last).identity == prepared.renewed().identity


def test_an_abort_of_nothing_with_the_last_epoch_begins_a_new_producer_id() -> None:
    coordinator = Coordinator()
    last = coordinator.at_epoch(LAST_USABLE_EPOCH)
    aborted = coordinator.end(last, is_commit=False)
    assert aborted.producer_epoch == 0
    assert aborted.producer_id != last.producer_id


# -- version 1: epochs stay, and what is late cannot be told (docs/decisions/0004) ------------------------------------


@pytest.mark.parametrize("is_commit", [True, False])
def test_version_1_a_repetition_is_answered_as_long_as_nothing_new_is_open(is_commit: bool) -> None:
    coordinator = Coordinator(transaction_version=1)
    producer = coordinator.ongoing()
    coordinator.end(producer, is_commit=is_commit, client_version=0)
    refused(ErrorCode.CONCURRENT_TRANSACTIONS, coordinator, producer, is_commit=is_commit, version=0)
    refused(ErrorCode.INVALID_TXN_STATE, coordinator, producer, is_commit=not is_commit, version=0)
    coordinator.complete()
    assert coordinator.end(producer, is_commit=is_commit, client_version=0).identity == producer
    refused(ErrorCode.INVALID_TXN_STATE, coordinator, producer, is_commit=not is_commit, version=0)


def test_version_1_nothing_open_cannot_be_ended() -> None:
    coordinator = Coordinator(transaction_version=1)
    producer = coordinator.init().identity
    refused(ErrorCode.INVALID_TXN_STATE, coordinator, producer, is_commit=False, version=0)


def test_version_1_the_window_a_delayed_end_does_end_a_later_transaction() -> None:
    """What KIP-890 closes for version 2. It takes a request that its producer gave up on and that still arrives."""
    coordinator = Coordinator(transaction_version=1)
    producer = coordinator.ongoing()
    coordinator.end(producer, client_version=0)
    coordinator.complete()
    coordinator.add(producer, STOCK)
    assert coordinator.end(producer, client_version=0).state is TransactionState.PREPARE_COMMIT


def test_version_1_the_window_ends_where_the_producer_initialises_again() -> None:
    coordinator = Coordinator(transaction_version=1)
    producer = coordinator.ongoing()
    coordinator.end(producer, client_version=0)
    coordinator.complete()
    coordinator.add(coordinator.init(producer).identity, STOCK)
    refused(ErrorCode.PRODUCER_FENCED, coordinator, producer, version=0)
