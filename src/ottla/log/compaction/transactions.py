"""Which batches belong to aborted transactions, and when a transaction's marker has lost its purpose.

Fed with every batch of a log in order, from its start. A marker is needed as long as a batch of its transaction is in
the log; the pass that removes the last of them still meets it, so only a later pass lets the marker go.
"""

from collections import deque
from collections.abc import Iterable

from ottla.base.disk import Buffer
from ottla.base.types import Offset, ProducerId
from ottla.log.transaction_index import AbortedTransaction
from ottla.wire.batch import BatchHeader
from ottla.wire.records import ControlType, control_type_of, records_of


class WalkedTransactions:
    __slots__ = ("_aborted", "_ongoing_aborted", "_with_data")

    def __init__(self, aborted: Iterable[AbortedTransaction], from_offset: Offset) -> None:
        """`aborted`: at least those whose marker comes at or after `from_offset`, where the walk begins."""
        relevant = (one for one in aborted if one.last_offset >= from_offset)
        self._aborted = deque(sorted(relevant, key=lambda one: one.first_offset))
        self._ongoing_aborted: dict[ProducerId, AbortedTransaction] = {}
        self._with_data: set[ProducerId] = set()

    def is_aborted(self, header: BatchHeader) -> bool:
        """Of a batch of data."""
        if not header.is_transactional:
            return False
        self._begin_up_to(header.last_offset)
        self._with_data.add(header.producer_id)
        return header.producer_id in self._ongoing_aborted

    def end(self, header: BatchHeader, batch: Buffer) -> tuple[bool, AbortedTransaction | None]:
        """A marker: whether it may go, and the entry that the transaction index still needs."""
        self._begin_up_to(header.last_offset)
        record = next(records_of(batch), None)
        if record is None:
            return True, None
        control_type = control_type_of(record.key)
        if control_type not in (ControlType.ABORT, ControlType.COMMIT):
            return False, None
        producer_id = header.producer_id
        had_data = producer_id in self._with_data
        self._with_data.discard(producer_id)
        aborted = self._ongoing_aborted.pop(producer_id, None) if control_type is ControlType.ABORT else None
        return not had_data, aborted if had_data else None

    def _begin_up_to(self, offset: Offset) -> None:
        while self._aborted and self._aborted[0].first_offset <= offset:
            aborted = self._aborted.popleft()
            self._ongoing_aborted.setdefault(aborted.producer_id, aborted)
