"""Transactions by handle: begun by one process, ended by another.

A handle is what a transaction is to its coordinator: the transactional id, and the producer id and epoch that wrote in it.
Nothing binds it to a connection, so a task can leave a transaction open and a driver can end it later. The epoch is raised
when a transaction ends (transaction.version 2, KIP-890), so that a handle names one transaction and never a later one;
with an older version it would not, and is refused (`check_version`).

Ending is repeatable: whoever repeats the same end is told that it is done, for as long as nobody took the id over.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from ottla.base.errors import ErrorCode
from ottla.base.types import NO_EPOCH, NO_PRODUCER_ID, ProducerId
from ottla.client.errors import ClientError, coded_error
from ottla.client.raw.address import Address
from ottla.client.raw.cluster import Cluster, CoordinatorKind
from ottla.client.raw.connection import NO_CONNECTION
from ottla.client.raw.patience import COORDINATOR_PASSING, patiently
from ottla.wire import api
from ottla.wire.apis import ApiKey

T = TypeVar("T")

TRANSACTION_VERSION: Final = "transaction.version"
TRANSACTION_VERSION_MIN: Final = 2
ONGOING: Final = "Ongoing"
COMMITTED: Final = frozenset({"PrepareCommit", "CompleteCommit"})
FENCED: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED.name,
        ErrorCode.INVALID_PRODUCER_EPOCH.name,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING.name,
        ErrorCode.INVALID_TXN_STATE.name,
        ErrorCode.TRANSACTION_ABORTABLE.name,
    }
)
"""Somebody else has the transactional id by now."""

NO_TIMEOUT_MS: Final = 60_000  # A producer without transactions has to name one all the same.


class ProducerIdentity(NamedTuple):
    producer_id: ProducerId
    epoch: int


class TransactionHandle(NamedTuple):
    transactional_id: str
    producer_id: ProducerId
    epoch: int

    @property
    def identity(self) -> ProducerIdentity:
        return ProducerIdentity(self.producer_id, self.epoch)


class TransactionView(NamedTuple):
    """What the coordinator says of a transactional id."""

    state: str
    identity: ProducerIdentity


def check_version(cluster: Cluster, *, timeout_s: float) -> None:
    def ask() -> int:
        answer = cluster.abilities()
        if answer.finalized_features_epoch < 0:
            raise _too_old()  # Or it has started a moment ago and does not know yet what the cluster has finalized.
        return {one.name: one.max_version_level for one in answer.finalized_features}.get(TRANSACTION_VERSION, 0)

    passing = {NO_CONNECTION, ErrorCode.UNSUPPORTED_VERSION.name}
    if patiently(ask, passing=passing, timeout_s=timeout_s) < TRANSACTION_VERSION_MIN:
        raise _too_old()


def _too_old() -> ClientError:
    return ClientError(
        ErrorCode.UNSUPPORTED_VERSION.name,
        f"the cluster has not finalized {TRANSACTION_VERSION}={TRANSACTION_VERSION_MIN} (Kafka 4.0 and newer can), "
        "without which nothing is written exactly once: guarantee=atLeastOnce is left",
    )


def init_idempotent(cluster: Cluster, *, timeout_s: float) -> ProducerIdentity:
    """A new producer id, for one who repeats batches but has no transactions."""
    request = api.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=NO_TIMEOUT_MS)

    def ask() -> ProducerIdentity:
        answer = cluster.ask(ApiKey.INIT_PRODUCER_ID, request, api.InitProducerIdResponse)
        _check(answer.error_code, "asking for a producer id")
        return ProducerIdentity(answer.producer_id, answer.producer_epoch)

    return patiently(ask, passing=COORDINATOR_PASSING, timeout_s=timeout_s)


class Transactions:
    """The coordinators of a cluster, each asked for what is its own."""

    def __init__(self, cluster: Cluster, *, timeout_s: float) -> None:
        self._cluster = cluster
        self._timeout_s = timeout_s
        self._coordinators: dict[str, Address] = {}

    def begin(
        self,
        transactional_id: str,
        *,
        timeout_ms: int,
        seen: ProducerIdentity | None = None,
        is_two_phase: bool = False,
    ) -> TransactionHandle:
        """Takes the id over; what was open under it is aborted, and whoever had it is fenced.

        With `seen` only from that identity: if another has taken the id over meanwhile, PRODUCER_FENCED. `is_two_phase`
        asks for a transaction without a time-out (KIP-939); a broker that has none of that, or does not allow it,
        gives one of `timeout_ms`.
        """
        try:
            return self._begin(transactional_id, timeout_ms, seen, is_two_phase)
        except ClientError as error:
            if not is_two_phase or error.code != ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED.name:
                raise
        return self._begin(transactional_id, timeout_ms, seen, False)

    def _begin(
        self, transactional_id: str, timeout_ms: int, seen: ProducerIdentity | None, is_two_phase: bool
    ) -> TransactionHandle:
        producer_id, epoch = seen or (NO_PRODUCER_ID, NO_EPOCH)
        request = api.InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            enable2_pc=is_two_phase,  # Left out of versions that do not know it.
        )

        def ask(at: Address) -> TransactionHandle:
            answer = self._cluster.ask(ApiKey.INIT_PRODUCER_ID, request, api.InitProducerIdResponse, at=at)
            _check(answer.error_code, f"taking over the transactional id {transactional_id}")
            return TransactionHandle(transactional_id, answer.producer_id, answer.producer_epoch)

        return self._of_coordinator(transactional_id, ask)

    def end(self, handle: TransactionHandle, *, is_commit: bool) -> None:
        """Until it has happened. `ClientError` of any other code than those that pass: it cannot happen any more."""
        request = api.EndTxnRequest(
            transactional_id=handle.transactional_id,
            producer_id=handle.producer_id,
            producer_epoch=handle.epoch,
            committed=is_commit,
        )

        def ask(at: Address) -> None:
            answer = self._cluster.ask(ApiKey.END_TXN, request, api.EndTxnResponse, at=at)
            _check(answer.error_code, f"ending the transaction of {handle.transactional_id}")

        self._of_coordinator(handle.transactional_id, ask)

    def describe(self, transactional_id: str) -> TransactionView | None:
        """None for an id that was never used, or not for so long that it is forgotten."""
        request = api.DescribeTransactionsRequest(transactional_ids=[transactional_id])

        def ask(at: Address) -> TransactionView | None:
            answer = self._cluster.ask(ApiKey.DESCRIBE_TRANSACTIONS, request, api.DescribeTransactionsResponse, at=at)
            (state,) = answer.transaction_states
            if state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                return None
            _check(state.error_code, f"describing the transaction of {transactional_id}")
            identity = ProducerIdentity(state.producer_id, state.producer_epoch)
            return TransactionView(state.transaction_state, identity)

        return self._of_coordinator(transactional_id, ask)

    def is_open(self, handle: TransactionHandle) -> bool:
        return self.describe(handle.transactional_id) == TransactionView(ONGOING, handle.identity)

    def open_handles(self, prefix: str) -> list[TransactionHandle]:
        """Of the open transactions whose ids begin like that."""
        views = {one: self.describe(one) for one in self._open_ids(prefix)}
        return [TransactionHandle(one, *view.identity) for one, view in views.items() if view and view.state == ONGOING]

    def _open_ids(self, prefix: str) -> list[str]:
        request = api.ListTransactionsRequest(state_filters=[ONGOING])

        def ask() -> list[str]:
            found: list[str] = []
            for at in self._cluster.brokers().values():
                answer = self._cluster.ask(ApiKey.LIST_TRANSACTIONS, request, api.ListTransactionsResponse, at=at)
                _check(answer.error_code, "listing transactions")
                found += [one.transactional_id for one in answer.transaction_states]
            return sorted(one for one in found if one.startswith(prefix))

        return patiently(ask, passing=COORDINATOR_PASSING, timeout_s=self._timeout_s)

    def _of_coordinator(self, transactional_id: str, ask: Callable[[Address], T]) -> T:
        def once() -> T:
            at = self._coordinators.get(transactional_id)
            if at is None:
                at = self._cluster.coordinator(CoordinatorKind.TRANSACTION, transactional_id)
            self._coordinators[transactional_id] = at
            try:
                return ask(at)
            except ClientError:
                self._coordinators.pop(transactional_id)  # It may have moved.
                raise

        return patiently(once, passing=COORDINATOR_PASSING, timeout_s=self._timeout_s)


def _check(error_code: int, doing: str) -> None:
    if error_code != ErrorCode.NONE:
        raise coded_error(error_code, doing)
