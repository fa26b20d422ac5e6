"""A producer takes over its transactional id (InitProducerId): who is let in, and with which epoch.

One that has just started gets a new epoch, which fences whoever was there; what that one had open is aborted first, or
kept for the new one to end where it asks for that (KIP-939). One that names the identity it has (KIP-360) goes on after an
error of its own, if nobody took over meanwhile. A repeated or delayed request changes nothing that was done since.
"""

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NO_PRODUCER_ID, NO_TIMESTAMP, ProducerId, TimestampMs
from ottla.coordinator.transactions.producer_epochs import EPOCH_MAX, fencing, next_identity
from ottla.coordinator.transactions.requests import InitProducer, Needs
from ottla.coordinator.transactions.transaction import Transaction, TransactionState


def created(request: InitProducer, producer_id: ProducerId, now_ms: TimestampMs) -> Transaction:
    return Transaction(
        transactional_id=request.transactional_id,
        producer_id=producer_id,
        producer_epoch=0,
        timeout_ms=request.timeout_ms,
        updated_ms=now_ms,
    )


def initialised(
    current: Transaction, request: InitProducer, new_producer_id: ProducerId | None, now_ms: TimestampMs
) -> Transaction | Needs:
    """The id as its producer finds it: EMPTY, with what is open kept for it, or aborting that: it asks again then."""
    expected = request.expected
    if expected is not None and expected not in (current.client, current.previous_identity):
        raise _taken_over(current)
    if current.state.is_decided:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS, f"{current.transactional_id!r}: markers are being written")
    if current.state is TransactionState.ONGOING:
        if expected is not None and expected != current.client:
            raise _taken_over(current)
        if request.keeps_open:
            return _kept(current, request, new_producer_id, now_ms)
        return fenced(current, now_ms, is_by_same_producer=expected is not None)
    if expected is not None and expected != current.client and current.producer_epoch < EPOCH_MAX:
        return _emptied(current, request, now_ms)  # A repetition: its epoch was raised already.
    following = next_identity(current.client, new_producer_id)
    if following is None:
        return Needs.PRODUCER_ID
    return _emptied(
        current,
        request,
        now_ms,
        producer_id=following.producer_id,
        producer_epoch=following.epoch,
        previous_producer_id=NO_PRODUCER_ID if expected is None else current.producer_id,
    )


def fenced(current: Transaction, now_ms: TimestampMs, *, is_by_same_producer: bool = False) -> Transaction:
    """Aborts what is open, with an epoch that its producer does not have: nothing of it can follow the markers."""
    return current.ended(
        TransactionState.PREPARE_ABORT,
        now_ms,
        following=fencing(current.client),
        previous_producer_id=current.client.producer_id if is_by_same_producer else NO_PRODUCER_ID,
    )


def _kept(
    current: Transaction, request: InitProducer, new_producer_id: ProducerId | None, now_ms: TimestampMs
) -> Transaction | Needs:
    """What is open stays as it is. Whoever had the id is fenced; the new one may only end it."""
    following = next_identity(current.client, new_producer_id)
    if following is None:
        return Needs.PRODUCER_ID
    return current.moved(
        TransactionState.ONGOING,
        now_ms,
        timeout_ms=max(current.timeout_ms, request.timeout_ms),  # What is open loses none of its time.
        previous_producer_id=NO_PRODUCER_ID,
        next_producer_id=following.producer_id,
        next_producer_epoch=following.epoch,
    )


def _emptied(current: Transaction, request: InitProducer, now_ms: TimestampMs, **changes: int) -> Transaction:
    return current.moved(
        TransactionState.EMPTY,
        now_ms,
        timeout_ms=request.timeout_ms,
        partitions=(),
        started_ms=NO_TIMESTAMP,
        **changes,
    )


def _taken_over(current: Transaction) -> ApiError:
    return ApiError(
        ErrorCode.PRODUCER_FENCED, f"another producer with the transactional id {current.transactional_id!r} took over"
    )
