"""What exactly-once queries have decided: a compacted topic with one record a query, its key the query's id.

The record says which run of the query may write, and the last micro-batch that was decided with the handles of its
transactions. `update` is the only way to change it: under the query's own transactional id, which each update takes over
first. That fences whoever was updating, waits until what they had decided is in the log, and makes sure that nobody
decides between our reading and our writing. Two drivers of one query can so never both decide.

Readers resolve transactions by their markers themselves. Up to the last stable offset they would wait for the open
transactions of all other queries.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

from ottla.base.errors import ErrorCode
from ottla.base.types import Offset, ProducerId, TopicPartition
from ottla.client.errors import coded_error
from ottla.client.raw.connection import NO_CONNECTION
from ottla.client.raw.fetching import PartitionReader
from ottla.client.raw.patience import patiently
from ottla.client.raw.transactions import TransactionHandle, check_version
from ottla.spark.sink_connections import SinkConnections
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.records import Batch, BatchBuilder, ControlType, control_type_of, records_of

TOPIC: Final = "__ottla_decisions"
TOPIC_CONFIG: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(4 << 20),  # Only closed segments are compacted, and every new worker reads all that is left.
    "min.cleanable.dirty.ratio": "0.1",
}
LAYOUT_VERSION: Final = 1
NO_BATCH: Final = -1
UPDATE_TIMEOUT_MS: Final = 30_000

_PARTITION: Final = TopicPartition(TOPIC, 0)
_FETCH_BYTES: Final = 1 << 20
_CREATION_PASSING: Final = frozenset(
    {
        NO_CONNECTION,
        ErrorCode.NOT_CONTROLLER.name,
        ErrorCode.REQUEST_TIMED_OUT.name,
        ErrorCode.NETWORK_EXCEPTION.name,
        ErrorCode.INVALID_REPLICATION_FACTOR.name,  # As long as a node is down that a replica would be on.
    }
)


def transactional_prefix(query_id: str) -> str:
    return f"ottla-spark-{query_id}-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    query_id: str
    run_id: str
    """The run that may write: the last one that was started."""
    earlier_runs: tuple[str, ...] = ()
    """Some of those before it, so that one that lives on is told apart from one that is new."""
    batch_id: int = NO_BATCH
    handles: tuple[TransactionHandle, ...] = ()
    """Of the transactions that make up this micro-batch and no other: to be committed, whatever happens."""

    def supersedes(self, run_id: str) -> bool:
        return run_id in self.earlier_runs

    def to_bytes(self) -> bytes:
        layout = {
            "version": LAYOUT_VERSION,
            "run": self.run_id,
            "earlierRuns": self.earlier_runs,
            "batch": self.batch_id,
            "handles": self.handles,
        }
        return json.dumps(layout, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, query_id: str, data: bytes) -> Self:
        layout = json.loads(data)
        if layout["version"] != LAYOUT_VERSION:
            raise ValueError(f"{TOPIC} has records of version {layout['version']}: a newer Ottla wrote them")
        return cls(
            query_id=query_id,
            run_id=layout["run"],
            earlier_runs=tuple(layout["earlierRuns"]),
            batch_id=layout["batch"],
            handles=tuple(TransactionHandle(*handle) for handle in layout["handles"]),
        )


class DecisionTable:
    """The last decision of every query, as far as the topic was read. What is not committed yet counts for nothing."""

    def __init__(self) -> None:
        self._decisions: dict[str, Decision] = {}
        self._undecided: dict[ProducerId, list[Decision]] = {}

    def of(self, query_id: str) -> Decision | None:
        return self._decisions.get(query_id)

    def take(self, batch: Batch) -> None:
        producer_id = batch.header.producer_id
        for record in records_of(batch.view):
            if batch.header.is_control:
                written = self._undecided.pop(producer_id, [])
                if control_type_of(record.key) is ControlType.COMMIT:
                    self._decisions |= {one.query_id: one for one in written}
            else:
                decision = Decision.from_bytes((record.key or b"").decode(), record.value or b"")
                self._undecided.setdefault(producer_id, []).append(decision)


class DecisionLog:
    def __init__(self, connections: SinkConnections) -> None:
        self._connections = connections
        self._transactions = connections.transactions
        check_version(connections.cluster, timeout_s=connections.options.max_block_ms / 1000)
        _create_topic(connections)
        self._reader = PartitionReader(
            connections.cluster,
            _PARTITION,
            read_committed=False,
            fetch_bytes=_FETCH_BYTES,
            timeout_s=connections.options.delivery_timeout_ms / 1000,
        )
        self._table = DecisionTable()
        self._next_offset: Offset = 0

    def read(self, query_id: str) -> Decision | None:
        """The last that is known to be committed. Only in `update` nothing can be on its way."""
        end = self._reader.end_offset()
        while self._next_offset < end:
            fetched = self._reader.fetch(self._next_offset)
            for batch in fetched.batches:
                self._table.take(batch)
            is_gap = not fetched.batches and fetched.end_offset >= end
            self._next_offset = end if is_gap else fetched.next_offset
        return self._table.of(query_id)

    def update(self, query_id: str, change: Callable[[Decision | None], Decision | None]) -> Decision | None:
        """Writes what `change` makes of the last decision, if that is another one. `ClientError`, one of `FENCED`, when
        somebody else updates at the same time: nothing is written then."""
        transactional_id = transactional_prefix(query_id) + "decision"
        handle = self._transactions.begin(transactional_id, timeout_ms=UPDATE_TIMEOUT_MS)
        before = self.read(query_id)
        after = change(before)
        if after is not None and after != before:
            self._write(handle, after)
            self._transactions.end(handle, is_commit=True)
        return after

    def _write(self, handle: TransactionHandle, decision: Decision) -> None:
        builder = BatchBuilder()
        builder.append(int(time.time() * 1000), decision.query_id.encode(), decision.to_bytes())
        sender = self._connections.sender(self._connections.leaders(), handle.identity, handle.transactional_id)
        try:
            sender.send(_PARTITION, builder.build(), record_count=1)
            sender.flush()
        except BaseException:
            sender.abandon()
            raise


def _create_topic(connections: SinkConnections) -> None:
    config = [
        api.CreateTopicsRequest.CreatableTopicConfig(name=name, value=value) for name, value in TOPIC_CONFIG.items()
    ]
    topic = api.CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=-1, configs=config)
    request = api.CreateTopicsRequest(topics=[topic], timeout_ms=connections.options.request_timeout_ms)

    def ask() -> None:
        answer = connections.cluster.ask(ApiKey.CREATE_TOPICS, request, api.CreateTopicsResponse)
        (created,) = answer.topics
        if created.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise coded_error(created.error_code, f"creating the topic {TOPIC}", created.error_message)

    patiently(ask, passing=_CREATION_PASSING, timeout_s=connections.options.max_block_ms / 1000)
