"""How a task of an exactly-once query comes to its transaction.

Its transactional id is that of its place (query, Spark partition, attempt), so that a query uses the same few ids for
ever. What an earlier task left open under it is aborted by taking it over. Two attempts of one task never share an id:
the one that is done must not be aborted by the one that comes late.

Before a run of the query writes anything, it claims the query: from then on no earlier run can decide, and what the
earlier ones left open is aborted. A task does that, because only tasks know which query and run they belong to.
"""

import random
import time
from dataclasses import dataclass, replace
from typing import Final, Self

from ottla.client.errors import ClientError
from ottla.client.raw.transactions import FENCED, TransactionHandle
from ottla.spark.decisions import Decision, DecisionLog, transactional_prefix
from ottla.spark.sink_connections import SinkConnections

EARLIER_RUNS_MAX: Final = 32
TRIES_MAX: Final = 50
BACKOFF_SECONDS_MAX: Final = 0.2

_TASK_PROPERTIES: Final = ("sql.streaming.queryId", "spark.jobGroup.id", "streaming.sql.batchId")
"""The job group of a streaming query is the id of its run."""


class Superseded(Exception):
    """A newer run of the same query writes now."""

    def __init__(self, query_id: str, run_id: str) -> None:
        super().__init__(
            f"another run of query {query_id} has taken over from run {run_id}: two drivers use one checkpoint. "
            "Stop one of them"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlace:
    query_id: str
    run_id: str
    batch_id: int
    partition: int
    attempt: int

    @classmethod
    def current(cls) -> Self:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "only tasks write"
        query_id, run_id, batch_id = (context.getLocalProperty(name) for name in _TASK_PROPERTIES)
        if not query_id or not run_id or not batch_id:
            raise RuntimeError(
                f"Spark does not tell its tasks {', '.join(_TASK_PROPERTIES)}: exactlyOnce needs them all"
            )
        return cls(
            query_id=query_id,
            run_id=run_id,
            batch_id=int(batch_id),
            partition=context.partitionId(),
            attempt=context.attemptNumber(),
        )

    @property
    def transactional_id(self) -> str:
        return f"{transactional_prefix(self.query_id)}{self.partition}-{self.attempt}"


def begin_transaction(connections: SinkConnections, log: DecisionLog, place: TaskPlace) -> TransactionHandle | None:
    """None where the micro-batch is decided already: then there is nothing to write."""
    transactions = connections.transactions
    for _ in range(TRIES_MAX):
        # In this order: whoever takes the id over after we looked fences us, and whoever did before had a reason that
        # the decision shows. A task that slept for a whole micro-batch can so not abort what a later one wrote.
        seen = transactions.describe(place.transactional_id)
        decision = log.read(place.query_id)
        if decision is None or decision.run_id != place.run_id:
            decision = _claim(connections, log, place)
        if decision.batch_id >= place.batch_id:
            return None
        try:
            return transactions.begin(
                place.transactional_id,
                timeout_ms=connections.options.transaction_timeout_ms,
                seen=None if seen is None else seen.identity,
                is_two_phase=True,
            )
        except ClientError as error:
            if error.code not in FENCED:
                raise
    raise RuntimeError(f"the transactional id {place.transactional_id} is taken over again and again: by whom?")


def _claim(connections: SinkConnections, log: DecisionLog, place: TaskPlace) -> Decision:
    """All tasks of a run's first micro-batch try at once; one succeeds, the others find its claim."""
    for _ in range(TRIES_MAX):
        try:
            return _try_claim(connections, log, place)
        except ClientError as error:
            if error.code not in FENCED:
                raise
        time.sleep(random.uniform(0, BACKOFF_SECONDS_MAX))
    raise RuntimeError(f"query {place.query_id} is claimed again and again: by whom?")


def _try_claim(connections: SinkConnections, log: DecisionLog, place: TaskPlace) -> Decision:
    leftovers: list[TransactionHandle] = []

    def claim(current: Decision | None) -> Decision:
        if current is None:
            return Decision(query_id=place.query_id, run_id=place.run_id)
        if current.run_id == place.run_id:
            return current
        if current.supersedes(place.run_id):
            raise Superseded(place.query_id, place.run_id)
        # Found before the claim is written and aborted after: so all of them are of earlier runs.
        leftovers.extend(connections.transactions.open_handles(transactional_prefix(place.query_id)))
        earlier = (current.run_id, *current.earlier_runs)[:EARLIER_RUNS_MAX]
        return replace(current, run_id=place.run_id, earlier_runs=earlier)

    decision = log.update(place.query_id, claim)
    assert decision is not None
    abort_all(connections, [one for one in leftovers if one not in decision.handles])
    return decision


def abort_all(connections: SinkConnections, handles: list[TransactionHandle]) -> None:
    """Those that are still open. A handle names one transaction for ever, so no later one can be hit."""
    for handle in handles:
        try:
            connections.transactions.end(handle, is_commit=False)
        except ClientError as error:
            if error.code not in FENCED:
                raise
