"""InitProducerId: who is let in, and with which identity."""

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.machine import ProducerIdentity
from ottla.coordinator.transactions.producer_epochs import EPOCH_MAX, LAST_USABLE_EPOCH
from ottla.coordinator.transactions.requests import InitProducer, Needs
from ottla.coordinator.transactions.transaction import TransactionState
from tests.unit.coordinator.transactions.support import ID, ORDERS, TIMEOUT_MS, Coordinator


def refused(code: ErrorCode, coordinator: Coordinator, expected: ProducerIdentity | None = None) -> None:
    with pytest.raises(ApiError) as caught:
        coordinator.init(expected)
    assert caught.value.code is code


def test_a_new_id_needs_a_producer_id_and_begins_with_epoch_0() -> None:
    coordinator = Coordinator()
    request = InitProducer(transactional_id=ID, timeout_ms=TIMEOUT_MS)
    decision = coordinator.machine.decide_init(request, None, 0)
    assert (decision.records, decision.reply) == ((), Needs.PRODUCER_ID)
    assert coordinator.init().identity == (100, 0)


def test_every_start_of_a_producer_raises_the_epoch() -> None:
    coordinator = Coordinator()
    assert [coordinator.init().producer_epoch for _ in range(3)] == [0, 1, 2]


def test_the_newest_timeout_counts() -> None:
    coordinator = Coordinator()
    coordinator.init(timeout_ms=5)
    coordinator.init(timeout_ms=7)
    assert coordinator.transaction.timeout_ms == 7


def test_a_new_producer_aborts_what_the_old_one_has_open_and_asks_again() -> None:
    coordinator = Coordinator()
    old = coordinator.ongoing()
    aborting = coordinator.init()
    assert (aborting.state, aborting.producer_epoch) == (TransactionState.PREPARE_ABORT, old.epoch + 1)
    assert aborting.partitions == (ORDERS,)
    assert coordinator.decided == [ID]
    refused(ErrorCode.CONCURRENT_TRANSACTIONS, coordinator)
    coordinator.complete()
    assert coordinator.init().identity == (old.producer_id, old.epoch + 2)


@pytest.mark.parametrize("is_commit", [True, False])
def test_markers_are_awaited(is_commit: bool) -> None:
    coordinator = Coordinator()
    coordinator.end(coordinator.ongoing(), is_commit=is_commit)
    refused(ErrorCode.CONCURRENT_TRANSACTIONS, coordinator)


# -- KIP-360: a producer that goes on after an error names itself -----------------------------------------------------


def test_a_producer_that_names_itself_goes_on_with_the_next_epoch() -> None:
    coordinator = Coordinator()
    producer = coordinator.init().identity
    assert coordinator.init(producer).identity == (producer.producer_id, producer.epoch + 1)


def test_its_repetition_gets_the_same_epoch() -> None:
    coordinator = Coordinator()
    producer = coordinator.init().identity
    first = coordinator.init(producer)
    assert coordinator.init(producer).identity == first.identity


def test_its_repetition_gets_the_same_epoch_from_another_coordinator() -> None:
    coordinator = Coordinator()
    producer = coordinator.init().identity
    first = coordinator.init(producer)
    coordinator.reload()
    assert coordinator.init(producer).identity == first.identity


def test_a_zombie_that_names_itself_is_fenced() -> None:
    coordinator = Coordinator()
    zombie = coordinator.init().identity
    coordinator.init()
    refused(ErrorCode.PRODUCER_FENCED, coordinator, zombie)
    coordinator.reload()
    refused(ErrorCode.PRODUCER_FENCED, coordinator, zombie)


def test_a_zombie_cannot_abort_what_its_successor_has_open() -> None:
    coordinator = Coordinator()
    zombie = coordinator.init().identity
    coordinator.ongoing()
    refused(ErrorCode.PRODUCER_FENCED, coordinator, zombie)
    assert coordinator.state is TransactionState.ONGOING


def test_a_delayed_request_cannot_abort_what_its_producer_opened_since() -> None:
    coordinator = Coordinator()
    producer = coordinator.init().identity
    coordinator.add(coordinator.init(producer).identity)
    refused(ErrorCode.PRODUCER_FENCED, coordinator, producer)
    assert coordinator.state is TransactionState.ONGOING


def test_another_producer_id_is_fenced() -> None:
    coordinator = Coordinator()
    coordinator.init()
    refused(ErrorCode.PRODUCER_FENCED, coordinator, ProducerIdentity(7, 0))


def test_a_producer_that_names_itself_aborts_what_it_has_open_and_goes_on() -> None:
    coordinator = Coordinator()
    producer = coordinator.ongoing()
    assert coordinator.init(producer).state is TransactionState.PREPARE_ABORT
    coordinator.complete()
    assert coordinator.init(producer).identity == (producer.producer_id, producer.epoch + 1)


def test_a_producer_that_lost_the_answer_to_its_commit_goes_on() -> None:
    coordinator = Coordinator()
    producer = coordinator.ongoing()
    coordinator.end(producer)
    coordinator.complete()
    assert coordinator.init(producer).identity == (producer.producer_id, producer.epoch + 1)


# -- the end of the epochs --------------------------------------------------------------------------------------------


def test_used_up_epochs_need_a_new_producer_id() -> None:
    coordinator = Coordinator()
    old = coordinator.at_epoch(LAST_USABLE_EPOCH)
    request = InitProducer(transactional_id=ID, timeout_ms=TIMEOUT_MS)
    assert coordinator.machine.decide_init(request, None, 0).reply is Needs.PRODUCER_ID
    renewed = coordinator.init()
    assert renewed.producer_epoch == 0
    assert renewed.producer_id != old.producer_id


def test_the_last_epoch_but_one_is_still_given_out() -> None:
    coordinator = Coordinator()
    coordinator.at_epoch(LAST_USABLE_EPOCH - 1)
    assert coordinator.init().producer_epoch == LAST_USABLE_EPOCH


def test_a_repetition_after_the_new_producer_id_gets_the_same_one() -> None:
    coordinator = Coordinator()
    old = coordinator.at_epoch(LAST_USABLE_EPOCH)
    renewed = coordinator.init(old)
    assert coordinator.init(old).identity == renewed.identity == (renewed.producer_id, 0)


def test_the_epoch_that_fences_the_last_one_is_nobodys() -> None:
    coordinator = Coordinator()
    last = coordinator.at_epoch(LAST_USABLE_EPOCH)
    coordinator.add(last)
    assert coordinator.init(last).producer_epoch == EPOCH_MAX
    coordinator.complete()
    renewed = coordinator.init(last)
    assert renewed.producer_epoch == 0
    assert renewed.producer_id != last.producer_id
