"""The transactional ids of one partition of `__transaction_state`."""

from ottla.base.clock import Clock
from ottla.base.errors import ApiError
from ottla.base.types import Offset
from ottla.coordinator.machine import ProducerIdentity, Submit
from ottla.coordinator.records import CoordinatorRecord


class TransactionMachine:
    def __init__(self, *, clock: Clock, submit: Submit) -> None:
        self._clock = clock
        self._submit = submit

    def replay(self, record: CoordinatorRecord, *, offset: Offset, transaction: ProducerIdentity | None) -> None:
        pass

    def replay_marker(self, transaction: ProducerIdentity, *, is_commit: bool) -> None:
        pass

    def start(self) -> None:
        pass

    def unload(self, error: ApiError) -> None:
        pass
