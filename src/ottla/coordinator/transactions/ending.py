"""A transaction is decided (EndTxn): commit or abort, once.

From transaction.version 2 on the epoch is raised with every end (KIP-890). The one who ended it is then told apart from
the one who goes on: a repetition carries the epoch before and is answered as the first time, and a delayed request can
never end a later transaction. Before, both carry the same epoch, and what a late request means is a guess
(docs/decisions/).
"""

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import ProducerId, TimestampMs
from ottla.coordinator.transactions.producer_epochs import next_identity
from ottla.coordinator.transactions.requests import EndTransaction, Needs
from ottla.coordinator.transactions.transaction import EPOCH_BUMPING_VERSION, Transaction, TransactionState

_OUTCOMES = {
    TransactionState.PREPARE_COMMIT: True,
    TransactionState.COMPLETE_COMMIT: True,
    TransactionState.PREPARE_ABORT: False,
    TransactionState.COMPLETE_ABORT: False,
}


def ended(
    current: Transaction, request: EndTransaction, new_producer_id: ProducerId | None, now_ms: TimestampMs
) -> Transaction | Needs:
    """The transaction as decided; `current` itself where it was decided so before."""
    bumps = request.client_version >= EPOCH_BUMPING_VERSION
    if bumps and current.bumps_epochs and _ended_before(current, request):
        return _repeated(current, request)
    check_producer(current, request.producer.producer_id, request.producer.epoch)
    if current.state is TransactionState.ONGOING:
        state = TransactionState.PREPARE_COMMIT if request.is_commit else TransactionState.PREPARE_ABORT
        return _decided(current, request, state, new_producer_id, now_ms)
    if not bumps:
        return _repeated(current, request)
    if current.state.is_decided:
        raise _being_written(current)
    if request.is_commit:
        raise _impossible(current, request)
    # The producer does not know whether its only write ever joined the transaction. It did not; a write that is still
    # under way must not come later than this, so the epoch is raised all the same.
    return _decided(current, request, TransactionState.COMPLETE_ABORT, new_producer_id, now_ms)


def check_producer(current: Transaction, producer_id: ProducerId, epoch: int) -> None:
    client = current.client
    if producer_id != client.producer_id:
        raise ApiError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            f"{current.transactional_id!r} belongs to producer {client.producer_id}, not {producer_id}",
        )
    if epoch != client.epoch:
        raise ApiError(
            ErrorCode.PRODUCER_FENCED,
            f"{current.transactional_id!r}: producer {producer_id} is at epoch {client.epoch}, not {epoch}",
        )


def _ended_before(current: Transaction, request: EndTransaction) -> bool:
    return current.state in _OUTCOMES and request.producer == current.previous_identity


def _decided(
    current: Transaction,
    request: EndTransaction,
    state: TransactionState,
    new_producer_id: ProducerId | None,
    now_ms: TimestampMs,
) -> Transaction | Needs:
    if request.client_version < EPOCH_BUMPING_VERSION:
        return current.moved(state, now_ms, client_version=request.client_version)
    following = next_identity(current.client, new_producer_id)
    if following is None:
        return Needs.PRODUCER_ID
    decided = current.ended(state, now_ms, following=following, previous_producer_id=current.client.producer_id)
    return decided if state.is_decided else decided.renewed()


def _repeated(current: Transaction, request: EndTransaction) -> Transaction:
    if _OUTCOMES.get(current.state) is not request.is_commit:
        raise _impossible(current, request)
    if current.state.is_decided:
        raise _being_written(current)
    return current


def _being_written(current: Transaction) -> ApiError:
    return ApiError(ErrorCode.CONCURRENT_TRANSACTIONS, f"{current.transactional_id!r}: markers are being written")


def _impossible(current: Transaction, request: EndTransaction) -> ApiError:
    wish = "commit" if request.is_commit else "abort"
    return ApiError(
        ErrorCode.INVALID_TXN_STATE, f"{current.transactional_id!r} is {current.state.label} and cannot {wish}"
    )
