"""Micro-batches that are written once, whatever fails and is repeated: two-phase commit (docs/decisions/0006).

Tasks write in transactions that they leave open, and return handles. The driver's `commit` records the decision, one
record with the handles of the micro-batch's transactions; from then on they will be committed, by this driver or by the
next. Then it commits them, and Spark goes on only when that has succeeded. A micro-batch that was decided is not written
again: its tasks find the decision, and its `commit` commits what the decision names.

`decide`, `apply` and `commit_one` are the steps between which a driver may die.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from ottla.client.errors import ClientError
from ottla.client.raw.patience import COORDINATOR_PASSING
from ottla.client.raw.transactions import COMMITTED, TransactionHandle
from ottla.spark.decisions import Decision, DecisionLog
from ottla.spark.sink_connections import SinkConnections, connections_of
from ottla.spark.sink_options import SinkOptions
from ottla.spark.task_transactions import Superseded, TaskPlace, abort_all, begin_transaction

if TYPE_CHECKING:
    import pyarrow as pa

_logs: dict[SinkOptions, DecisionLog] = {}


class TransactionLost(Exception):
    """The broker ended a transaction before it was decided: nothing is lost, Spark writes the micro-batch again."""


class DecidedTransactionLost(Exception):
    """The broker ended a transaction that was to be committed: rows are missing."""


@dataclass
class Prepared(WriterCommitMessage):
    """What a task hands to the driver."""

    query_id: str
    run_id: str
    handle: TransactionHandle | None
    """None where there was nothing to write."""


class ExactlyOnceStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    # -- in tasks ----------------------------------------------------------------------------------------------------

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Prepared:
        return self.write_at(TaskPlace.current(), iterator)

    def write_at(self, place: TaskPlace, batches: "Iterator[pa.RecordBatch]") -> Prepared:
        """Without rows there is no transaction, and neither for a micro-batch that is decided already."""
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        handle = None if first is None else begin_transaction(self._connections, self._log, place)
        if handle is not None:
            self._write_rows(handle, itertools.chain([first], filled))
        for _ in filled:
            pass  # Spark wants its rows to be taken, also those that are not needed.
        return Prepared(place.query_id, place.run_id, handle)

    def _write_rows(self, handle: TransactionHandle, batches: "Iterable[pa.RecordBatch]") -> None:
        from ottla.spark.row_writing import RowWriter

        writer = RowWriter(self._connections, handle.identity, handle.transactional_id)
        try:
            for batch in batches:
                writer.write(batch)
            writer.finish()
        except BaseException:
            writer.abandon()
            abort_all(self._connections, [handle])
            raise

    # -- in the driver -----------------------------------------------------------------------------------------------

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        prepared = _prepared(messages)
        decision = self.decide(prepared, batchId)
        if decision is not None and decision.batch_id == batchId:
            self.apply(decision)
        self._abort_undecided(prepared, decision)

    def decide(self, prepared: Sequence[Prepared], batch_id: int) -> Decision | None:
        """The decision on this micro-batch: ours, or the one that was there."""
        query_id, run_id = prepared[0].query_id, prepared[0].run_id
        handles = _handles(prepared)
        if self._superseding(prepared):
            raise Superseded(query_id, run_id)

        def change(current: Decision | None) -> Decision | None:
            if not handles:
                return current
            if current is None or current.run_id != run_id:
                raise Superseded(query_id, run_id)
            if current.batch_id >= batch_id:
                return current
            self._check_open(handles, batch_id)
            return replace(current, batch_id=batch_id, handles=handles)

        return self._log.update(query_id, change)

    def _check_open(self, handles: Sequence[TransactionHandle], batch_id: int) -> None:
        lost = [one.transactional_id for one in handles if not self._connections.transactions.is_open(one)]
        if lost:
            raise TransactionLost(
                f"micro-batch {batch_id} is not decided: the broker has ended {', '.join(lost)} already. It is written "
                "again when the query starts again; raise kafka.transaction.timeout.ms if it takes longer than that"
            )

    def apply(self, decision: Decision) -> None:
        """Every transaction of the decision is committed when this returns."""
        lost = [handle.transactional_id for handle in decision.handles if not self.commit_one(handle)]
        if lost:
            raise DecidedTransactionLost(
                f"micro-batch {decision.batch_id} was decided, but the broker has aborted {len(lost)} of its "
                f"{len(decision.handles)} transactions since ({', '.join(lost)}): no driver came back within "
                "the time it gives (kafka.transaction.timeout.ms; with two-phase commit its own limit). Their rows are "
                "missing. Run the query with guarantee=atLeastOnce until this micro-batch is done: it is written again as "
                "a whole, and only rows of its committed transactions are there twice. Then go back to exactlyOnce"
            )

    def commit_one(self, handle: TransactionHandle) -> bool:
        """Whether it is committed. Nobody takes over an id while its transaction is decided and not committed, so an
        end that was made before is repeated with success; all else is an end that somebody else made."""
        try:
            self._connections.transactions.end(handle, is_commit=True)
        except ClientError as error:
            if error.code in COORDINATOR_PASSING:
                raise
            view = self._connections.transactions.describe(handle.transactional_id)
            return (
                view is not None
                and view.state in COMMITTED
                and view.identity.producer_id == handle.producer_id
                and view.identity.epoch - handle.epoch in (0, 1)
            )
        return True

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """What was decided stays decided, also where `commit` did not live to see it."""
        prepared = _prepared(messages)
        if prepared:
            decision = self._superseding(prepared) or self._log.update(prepared[0].query_id, lambda current: current)
            self._abort_undecided(prepared, decision)

    def _superseding(self, prepared: Sequence[Prepared]) -> Decision | None:
        """What a newer run has made of the query, if there is one. Such a run is not to be disturbed by an update."""
        current = self._log.read(prepared[0].query_id)
        return current if current is not None and current.supersedes(prepared[0].run_id) else None

    def _abort_undecided(self, prepared: Sequence[Prepared], decision: Decision | None) -> None:
        decided = () if decision is None else decision.handles
        abort_all(self._connections, [one for one in _handles(prepared) if one not in decided])

    @property
    def _connections(self) -> SinkConnections:
        return connections_of(self._options)

    @property
    def _log(self) -> DecisionLog:
        if self._options not in _logs:
            _logs[self._options] = DecisionLog(self._connections)
        return _logs[self._options]


def _prepared(messages: Sequence[WriterCommitMessage | None]) -> list[Prepared]:
    """Of the tasks that did not fail."""
    return [one for one in messages if isinstance(one, Prepared)]


def _handles(prepared: Sequence[Prepared]) -> tuple[TransactionHandle, ...]:
    return tuple(one.handle for one in prepared if one.handle is not None)
