"""Record batches as they lie in the log, of one partition, wherever its leader is.

A fetch names the leader epoch it knows; when the leader has moved, the metadata is asked for again, for at most
`timeout_s`. What an answer says about aborted transactions comes with it: `committed_only` is the rule by which a
reader of committed data leaves them out.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar
from uuid import UUID

from ottla.base.errors import ErrorCode, ProtocolError
from ottla.base.types import Offset, ProducerId, TopicPartition
from ottla.client.errors import ClientError, coded_error
from ottla.client.raw.address import Address
from ottla.client.raw.cluster import Cluster, broker_addresses
from ottla.client.raw.offsets import LATEST
from ottla.client.raw.patience import LEADER_PASSING, patiently
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.records import Batch, ControlType, batches, control_type_of, records_of

T = TypeVar("T")

_NO_SESSION_EPOCH: Final = -1
_PASSING: Final = LEADER_PASSING | {ErrorCode.UNKNOWN_TOPIC_ID.name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """Whole batches from the one that holds the asked offset on; none when there are none yet."""

    batches: Sequence[Batch]
    records: memoryview
    """What they lie in."""
    aborted: Sequence[tuple[ProducerId, Offset]]
    """Producer and first offset of each aborted transaction among them (only where committed data was asked for)."""
    log_start_offset: Offset
    end_offset: Offset
    """Up to where there is something to read: the high watermark, or the last stable offset."""
    next_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class _Leader:
    address: Address
    epoch: int
    topic_id: UUID


class PartitionReader:
    def __init__(
        self,
        cluster: Cluster,
        partition: TopicPartition,
        *,
        read_committed: bool,
        fetch_bytes: int,
        max_wait_ms: int = 500,
        timeout_s: float = 60.0,
    ) -> None:
        self._cluster = cluster
        self._partition = partition
        self._read_committed = read_committed
        self._fetch_bytes = fetch_bytes
        self._max_wait_ms = max_wait_ms
        self._timeout_s = timeout_s
        self._leader: _Leader | None = None

    def fetch(self, offset: Offset) -> Fetched:
        """`ClientError`: OFFSET_OUT_OF_RANGE at once, what passes by itself only when it has not for `timeout_s`."""
        return self._of_leader(lambda leader: self._fetch_from(leader, offset))

    def end_offset(self) -> Offset:
        """Up to where there is something to read, surely. `Fetched` may tell less: what a leader knows to be committed
        when it is elected lags behind what its predecessor has told. Asked like this, it says so (KIP-207)."""
        return self._of_leader(self._ask_end_offset)

    def _of_leader(self, ask: Callable[[_Leader], T]) -> T:
        def once() -> T:
            leader = self._leader = self._leader or self._find_leader()
            try:
                return ask(leader)
            except ClientError:
                self._leader = None
                raise

        return patiently(once, passing=_PASSING, timeout_s=self._timeout_s)

    def _ask_end_offset(self, leader: _Leader) -> Offset:
        partition = api.ListOffsetsRequest.ListOffsetsPartition(
            partition_index=self._partition.partition, current_leader_epoch=leader.epoch, timestamp=LATEST
        )
        topic = api.ListOffsetsRequest.ListOffsetsTopic(name=self._partition.topic, partitions=[partition])
        request = api.ListOffsetsRequest(isolation_level=int(self._read_committed), topics=[topic])
        response = self._cluster.ask(ApiKey.LIST_OFFSETS, request, api.ListOffsetsResponse, at=leader.address)
        answer = response.topics[0].partitions[0]
        self._check(answer.error_code)
        return answer.offset

    def _fetch_from(self, leader: _Leader, offset: Offset) -> Fetched:
        partition = api.FetchRequest.FetchPartition(
            partition=self._partition.partition,
            current_leader_epoch=leader.epoch,
            fetch_offset=offset,
            partition_max_bytes=self._fetch_bytes,
        )
        topic = api.FetchRequest.FetchTopic(
            topic=self._partition.topic, topic_id=leader.topic_id, partitions=[partition]
        )
        request = api.FetchRequest(
            max_wait_ms=self._max_wait_ms,
            min_bytes=1,
            max_bytes=self._fetch_bytes,
            isolation_level=int(self._read_committed),
            session_epoch=_NO_SESSION_EPOCH,
            topics=[topic],
        )
        response = self._cluster.ask(ApiKey.FETCH, request, api.FetchResponse, at=leader.address)
        self._check(response.error_code)
        answer = response.responses[0].partitions[0]
        self._check(answer.error_code)
        return self._fetched(answer, offset)

    def _check(self, error_code: int) -> None:
        if error_code != ErrorCode.NONE:
            raise coded_error(error_code, f"fetching from {self._partition}")

    def _fetched(self, answer: api.FetchResponse.PartitionData, offset: Offset) -> Fetched:
        records = memoryview(answer.records or b"")
        try:
            found = list(batches(records, stop_at_partial=True))
        except ProtocolError as error:
            raise ClientError("CORRUPT_MESSAGE", f"{self._partition}@{offset}: {error}") from error
        return Fetched(
            batches=found,
            records=records,
            aborted=[(one.producer_id, one.first_offset) for one in answer.aborted_transactions or ()],
            log_start_offset=answer.log_start_offset,
            end_offset=answer.last_stable_offset if self._read_committed else answer.high_watermark,
            next_offset=found[-1].header.next_offset if found else offset,
        )

    def _find_leader(self) -> _Leader:
        answer = self._cluster.metadata([self._partition.topic])
        topic = answer.topics[0]
        self._check(topic.error_code)
        leaders = {one.partition_index: one for one in topic.partitions}
        found = leaders.get(self._partition.partition)
        if found is None:
            raise coded_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"looking for {self._partition}")
        address = broker_addresses(answer).get(found.leader_id)
        if address is None:
            raise coded_error(ErrorCode.LEADER_NOT_AVAILABLE, f"looking for the leader of {self._partition}")
        return _Leader(address=address, epoch=found.leader_epoch, topic_id=topic.topic_id)


def committed_only(found: Iterable[Batch], aborted: Iterable[tuple[ProducerId, Offset]]) -> list[Batch]:
    """The data batches that are not part of an aborted transaction; control batches are left out, too."""
    to_come = deque(sorted(aborted, key=lambda one: one[1]))
    open_aborted: set[ProducerId] = set()
    visible: list[Batch] = []
    for batch in found:
        header = batch.header
        while to_come and to_come[0][1] <= header.last_offset:
            open_aborted.add(to_come.popleft()[0])
        if header.is_control:
            if header.producer_id in open_aborted and _is_abort(batch):
                open_aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in open_aborted):
            visible.append(batch)
    return visible


def data_only(found: Iterable[Batch]) -> list[Batch]:
    """Without control batches: what a reader of uncommitted data sees."""
    return [batch for batch in found if not batch.header.is_control]


def _is_abort(batch: Batch) -> bool:
    return any(control_type_of(record.key) is ControlType.ABORT for record in records_of(batch.view))
