"""Partitions, time-outs, expiry, reloads and listings of a transaction coordinator."""

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NO_PRODUCER_ID, TopicPartition
from ottla.coordinator.machine import ProducerIdentity
from ottla.coordinator.records import TRANSACTION_RECORDS
from ottla.coordinator.transactions.requests import InitProducer, TransactionFilter
from ottla.coordinator.transactions.transaction import Transaction, TransactionState
from ottla.metadata.topic_names import TRANSACTION_TOPIC
from tests.unit.coordinator.transactions.support import ID, ORDERS, STOCK, TIMEOUT_MS, Coordinator


def code_of(error: pytest.ExceptionInfo[ApiError]) -> ErrorCode:
    return error.value.code


# -- partitions -------------------------------------------------------------------------------------------------------


def test_the_first_partition_opens_the_transaction_and_its_time_begins() -> None:
    coordinator = Coordinator()
    producer = coordinator.init().identity
    coordinator.now_ms = 2_000
    opened = coordinator.add(producer)
    coordinator.now_ms = 3_000
    more = coordinator.add(producer, STOCK)
    assert (opened.state, opened.started_ms) == (TransactionState.ONGOING, 2_000)
    assert (more.partitions, more.started_ms, more.updated_ms) == ((ORDERS, STOCK), 2_000, 3_000)


def test_partitions_that_are_in_are_not_recorded_again() -> None:
    coordinator = Coordinator()
    producer = coordinator.ongoing()
    recorded = len(coordinator.log)
    coordinator.add(producer, ORDERS)
    assert len(coordinator.log) == recorded


def test_the_log_of_transactions_is_in_none() -> None:
    """A marker in it would be a second writer, whom its coordinator does not survive."""
    coordinator = Coordinator()
    producer = coordinator.init().identity
    with pytest.raises(ApiError) as refused:
        coordinator.add(producer, ORDERS, TopicPartition(TRANSACTION_TOPIC, 7))
    assert code_of(refused) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert coordinator.transaction.state is TransactionState.EMPTY


def test_a_new_transaction_begins_without_the_partitions_of_the_last() -> None:
    coordinator = Coordinator()
    following = coordinator.end(coordinator.ongoing()).identity
    coordinator.complete()
    assert coordinator.add(following, STOCK).partitions == (STOCK,)


def test_only_the_current_producer_adds_and_verifies() -> None:
    coordinator = Coordinator()
    with pytest.raises(ApiError) as unknown:
        coordinator.add(ProducerIdentity(1, 0))
    assert code_of(unknown) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    producer = coordinator.ongoing()
    for wrong, code in (
        (ProducerIdentity(7, 0), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ProducerIdentity(producer.producer_id, 5), ErrorCode.PRODUCER_FENCED),
    ):
        with pytest.raises(ApiError) as adding:
            coordinator.add(wrong)
        with pytest.raises(ApiError) as verifying:
            coordinator.machine.verify(ID, wrong)
        assert code_of(adding) is code_of(verifying) is code


def test_while_markers_are_written_nothing_is_added_or_verified() -> None:
    coordinator = Coordinator()
    following = coordinator.end(coordinator.ongoing()).identity
    with pytest.raises(ApiError) as adding:
        coordinator.add(following)
    with pytest.raises(ApiError) as verifying:
        coordinator.machine.verify(ID, following)
    assert code_of(adding) is code_of(verifying) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_verifying_tells_what_is_in_and_records_nothing() -> None:
    coordinator = Coordinator()
    producer = coordinator.ongoing()
    decision = coordinator.machine.verify(ID, producer)
    assert (decision.records, decision.reply) == ((), {ORDERS})


# -- time -------------------------------------------------------------------------------------------------------------


def test_what_is_open_too_long_is_aborted_and_its_producer_fenced() -> None:
    coordinator = Coordinator()
    producer = coordinator.ongoing()
    just_in_time = coordinator.now_ms + TIMEOUT_MS - 1
    assert coordinator.machine.overdue(just_in_time) == []
    assert coordinator.machine.decide_timeout(ID, just_in_time).records == ()
    assert coordinator.machine.overdue(just_in_time + 1) == [ID]
    coordinator.apply(coordinator.machine.decide_timeout(ID, just_in_time + 1))
    assert coordinator.state is TransactionState.PREPARE_ABORT
    assert coordinator.decided == [ID]
    coordinator.complete()
    for is_commit in (True, False):
        with pytest.raises(ApiError) as caught:
            coordinator.end(producer, is_commit=is_commit)
        assert code_of(caught) is ErrorCode.PRODUCER_FENCED
    with pytest.raises(ApiError) as caught:
        coordinator.init(producer)
    assert code_of(caught) is ErrorCode.PRODUCER_FENCED


def test_what_is_decided_does_not_time_out() -> None:
    coordinator = Coordinator()
    coordinator.end(coordinator.ongoing())
    assert coordinator.machine.overdue(coordinator.now_ms + 10 * TIMEOUT_MS) == []
    assert coordinator.machine.decide_timeout(ID, coordinator.now_ms + 10 * TIMEOUT_MS).records == ()


@pytest.mark.parametrize("state", ["empty", "complete"])
def test_an_idle_id_expires(state: str) -> None:
    coordinator = Coordinator()
    if state == "complete":
        coordinator.end(coordinator.ongoing())
        coordinator.complete()
    else:
        coordinator.init()
    assert coordinator.machine.decide_expiry(coordinator.now_ms + 99, 100).reply == 0
    assert coordinator.apply(coordinator.machine.decide_expiry(coordinator.now_ms + 100, 100)) == 1
    with pytest.raises(ApiError) as caught:
        coordinator.machine.describe(ID)
    assert code_of(caught) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    coordinator.reload()
    assert coordinator.machine.matching(TransactionFilter(), 0).reply == []


@pytest.mark.parametrize("state", ["ongoing", "decided"])
def test_what_is_open_or_decided_does_not_expire(state: str) -> None:
    coordinator = Coordinator()
    producer = coordinator.ongoing()
    if state == "decided":
        coordinator.end(producer)
    assert coordinator.machine.decide_expiry(coordinator.now_ms + 10_000, 100).reply == 0


# -- completion and reloads -------------------------------------------------------------------------------------------


def test_a_completion_that_comes_late_changes_nothing() -> None:
    coordinator = Coordinator()
    coordinator.end(coordinator.ongoing())
    prepared = coordinator.machine.decided(ID).reply
    assert prepared is not None
    coordinator.complete()
    assert coordinator.machine.decide_completion(prepared, coordinator.now_ms).records == ()
    assert coordinator.machine.decided(ID).reply is None


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_state_survives_a_reload(version: int) -> None:
    coordinator = Coordinator(transaction_version=version)
    client_version = 2 if version == 2 else 0

    def same_after_reload() -> None:
        before = coordinator.transaction
        coordinator.reload()
        after = coordinator.transaction
        assert (after.identity, after.state, after.partitions) == (before.identity, before.state, before.partitions)
        assert (after.started_ms, after.updated_ms) == (before.started_ms, before.updated_ms)
        assert (coordinator.decided == [ID]) is before.state.is_decided

    producer = coordinator.init().identity
    same_after_reload()
    coordinator.add(producer, ORDERS, STOCK)
    same_after_reload()
    ended = coordinator.end(producer, client_version=client_version)
    same_after_reload()
    coordinator.complete()
    same_after_reload()
    coordinator.add(ended.identity)
    coordinator.end(ended.identity, is_commit=False, client_version=client_version)
    same_after_reload()


def test_nothing_is_reported_before_everything_is_loaded() -> None:
    """A decision in the middle of the log may be complete further down."""
    coordinator = Coordinator()
    coordinator.end(coordinator.ongoing())
    coordinator.complete()
    coordinator.reload()
    assert coordinator.decided == []


# -- records ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("transaction_version", "value_version"), [(0, 0), (1, 1), (2, 1)])
def test_records_have_kafkas_version(transaction_version: int, value_version: int) -> None:
    coordinator = Coordinator(transaction_version=transaction_version)
    coordinator.init()
    key, value = coordinator.log[-1]
    assert key == b"\x00\x00" + len(ID).to_bytes(2, "big") + ID.encode()
    assert value is not None
    assert value[:2] == value_version.to_bytes(2, "big")


def test_a_record_says_what_the_transaction_is() -> None:
    transaction = Transaction(
        transactional_id=ID,
        producer_id=5,
        producer_epoch=6,
        timeout_ms=7,
        updated_ms=9,
        state=TransactionState.PREPARE_COMMIT,
        partitions=(ORDERS, STOCK),
        started_ms=8,
        previous_producer_id=4,
        next_producer_id=10,
        next_producer_epoch=3,
        client_version=2,
    )
    key, value = TRANSACTION_RECORDS.encode(transaction.record(2))
    decoded = TRANSACTION_RECORDS.decode(key, value)
    assert decoded is not None
    assert decoded.value is not None
    assert Transaction.of_record(ID, decoded.value) == transaction


def test_an_empty_transaction_has_no_partitions_field() -> None:
    coordinator = Coordinator()
    record = coordinator.init().record(2)
    assert record.value.transaction_partitions is None
    assert record.value.next_producer_id == NO_PRODUCER_ID


# -- listing ----------------------------------------------------------------------------------------------------------


def test_lists_are_filtered() -> None:
    coordinator = Coordinator()
    coordinator.ongoing()
    for name in ("a-1", "a-2", "b-1"):
        request = InitProducer(transactional_id=name, timeout_ms=TIMEOUT_MS)
        coordinator.apply(coordinator.machine.decide_init(request, coordinator.take_producer_id(), coordinator.now_ms))

    def listed(now_ms: int = 0, **wanted: object) -> list[str]:
        found = coordinator.machine.matching(TransactionFilter(**wanted), now_ms).reply  # type: ignore[arg-type]
        return sorted(one.transactional_id for one in found)

    assert listed() == ["a-1", "a-2", "b-1", ID]
    assert listed(states=frozenset({"Ongoing"})) == [ID]
    assert listed(states=frozenset({"Empty"}), pattern="a-.*") == ["a-1", "a-2"]
    assert listed(pattern="a") == []
    assert listed(producer_ids=frozenset({coordinator.transaction.producer_id})) == [ID]
    assert listed(coordinator.now_ms + 50, states=frozenset({"Ongoing"}), longer_than_ms=50) == []
    assert listed(coordinator.now_ms + 51, states=frozenset({"Ongoing"}), longer_than_ms=50) == [ID]


def test_labels_are_kafkas() -> None:
    assert [state.label for state in TransactionState] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]
