"""What a fetch finds in one partition: for a consumer up to the watermark, for a follower up to the log end.

A follower's fetch also says how far its copy has come. It is believed once we lead in the epoch that the follower knows and
its log is a prefix of ours; where the two part ways it is told so instead (KIP-595). A consumer may read from any replica
(KIP-392); who leads sends it to one in its own rack where `replica.selector.class` asks for that.

Called by broker/handlers/fetch.py.
"""

import asyncio
import logging
from typing import Final, NamedTuple

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NO_EPOCH, NO_NODE, NO_OFFSET, NodeId, Offset
from ottla.broker.fetch_session import FetchEntry, Replica
from ottla.broker.node import Node
from ottla.log.epoch_cache import EpochEnd
from ottla.log.partition_log import LogSlice
from ottla.log.transaction_index import AbortedTransaction
from ottla.replica.partition import Partition
from ottla.replica.throttle import Throttle

logger = logging.getLogger(__name__)

READ_COMMITTED: Final = 1


class Fetched(NamedTuple):
    """What the answer says about one partition."""

    entry: FetchEntry
    error_code: int
    high_watermark: Offset
    log_start_offset: Offset
    records: LogSlice | None
    last_stable_offset: Offset = NO_OFFSET
    aborted: list[AbortedTransaction] | None = None
    end: Offset = NO_OFFSET
    """Up to where the reader may read now."""
    preferred_replica: NodeId = NO_NODE
    diverging: EpochEnd | None = None

    @property
    def size(self) -> int:
        return 0 if self.records is None else self.records.size

    @property
    def must_be_told(self) -> bool:
        """At once, whatever else the fetch waits for."""
        return self.error_code != 0 or self.diverging is not None or self.preferred_replica != NO_NODE

    @property
    def has_news(self) -> bool:
        entry = self.entry
        sent, high_watermark = entry.sent_high_watermark, self.high_watermark
        if entry.session.replica is not None:  # What is committed beyond its end is nothing to a follower yet.
            sent, high_watermark = min(sent, entry.fetch_offset), min(high_watermark, entry.fetch_offset)
        return sent != high_watermark or entry.sent_log_start_offset != self.log_start_offset


class Reader(NamedTuple):
    """On whose behalf is read; the same for all partitions of a request."""

    replica: Replica | None
    is_committed_only: bool
    may_read_followers: bool
    rack: str
    """Of a consumer that wants a replica near it; else empty."""


async def read_entry(node: Node, reader: Reader, entry: FetchEntry, room: int, *, first: bool) -> Fetched:
    """At most `room` bytes, but a whole batch where it is the `first` one of the answer."""
    partition = entry.partition
    if partition is None or partition.deleted:
        entry.bind(node.partitions.find(entry.topic, entry.index))
        partition = entry.partition
        if partition is None:
            return Fetched(entry, node.partitions.refusal(entry.topic, entry.index).code, -1, -1, None)
    error_code = _check_leader(partition, reader, entry)
    if error_code:
        return Fetched(entry, error_code, -1, -1, None)
    try:
        if not entry.is_reported:
            diverging = _report(partition, reader.replica, entry)
            if diverging is not None:
                return _fetched(partition, reader, entry)._replace(diverging=diverging)
        if reader.rack and (nearest := _nearest_replica(node, partition, entry, reader.rack)) != NO_NODE:
            return _fetched(partition, reader, entry)._replace(preferred_replica=nearest)
        if entry.fetch_offset == _readable_end(partition, reader) or (room <= 0 and not first):
            return _fetched(partition, reader, entry)
        return await _read(partition, reader, entry, min(room, entry.max_bytes), first=first)
    except ApiError as error:
        return Fetched(entry, error.code, partition.high_watermark, partition.log.log_start_offset, None)
    except OSError as error:
        logger.error("cannot read %s: %s", partition.topic_partition, error)
        return Fetched(entry, ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, None)


def _check_leader(partition: Partition, reader: Reader, entry: FetchEntry) -> int:
    """0 where the reader may read here, in the epoch that it knows."""
    known_epoch = entry.current_leader_epoch
    if known_epoch != partition.leader_epoch and known_epoch != NO_EPOCH:
        return partition.check_leader_epoch(known_epoch)
    if not partition.is_leading:
        if not reader.may_read_followers:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if entry.fetch_offset > partition.high_watermark:
            # What a follower has not got, or not heard of as committed, may be both elsewhere (KIP-392).
            return ErrorCode.OFFSET_NOT_AVAILABLE
    return 0


def _report(partition: Partition, replica: Replica | None, entry: FetchEntry) -> EpochEnd | None:
    """Once a request: whether the reader's log is a prefix of ours, and if so how far a follower has come."""
    if entry.last_fetched_epoch != NO_EPOCH:
        diverging = partition.divergence(entry.last_fetched_epoch, entry.fetch_offset)
        if diverging is not None:
            return diverging
    if replica is not None:
        log = partition.log
        if not log.log_start_offset <= entry.fetch_offset <= log.log_end_offset:
            reason = f"{partition.topic_partition}: {entry.fetch_offset} is not in this log"
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, reason)
        partition.on_follower_fetch(replica.node_id, replica.broker_epoch, entry.fetch_offset, entry.log_start_offset)
    entry.is_reported = True
    return None


async def _read(partition: Partition, reader: Reader, entry: FetchEntry, max_bytes: int, *, first: bool) -> Fetched:
    aborted: list[AbortedTransaction] | None = None
    records: LogSlice | None
    if reader.replica is not None:
        throttle = partition.throttle_of(reader.replica.node_id)
        if throttle is None:
            records = await partition.read_to_end(entry.fetch_offset, max_bytes, min_one_batch=first)
        else:
            records = await _read_throttled(partition, throttle, entry, max_bytes, first=first)
    elif reader.is_committed_only:
        records, aborted = await partition.read_committed(entry.fetch_offset, max_bytes, min_one_batch=first)
    else:
        records = await partition.read(entry.fetch_offset, max_bytes, min_one_batch=first)
    return _fetched(partition, reader, entry, records, aborted)


async def _read_throttled(
    partition: Partition, throttle: Throttle, entry: FetchEntry, max_bytes: int, *, first: bool
) -> LogSlice | None:
    loop = asyncio.get_running_loop()
    if (rest_seconds := throttle.rest_seconds(loop.time())) > 0:
        entry.rest(rest_seconds)
        return None
    max_bytes = min(max_bytes, throttle.piece_bytes_max)
    records = await partition.read_to_end(entry.fetch_offset, max_bytes, min_one_batch=first)
    throttle.count(records.size, loop.time())
    return records


def _fetched(
    partition: Partition,
    reader: Reader,
    entry: FetchEntry,
    records: LogSlice | None = None,
    aborted: list[AbortedTransaction] | None = None,
) -> Fetched:
    start, end = partition.log.log_start_offset, _readable_end(partition, reader)
    stable = NO_OFFSET if reader.replica is not None else partition.last_stable_offset  # A follower has its own.
    return Fetched(entry, 0, partition.high_watermark, start, records, stable, aborted, end)


def _readable_end(partition: Partition, reader: Reader) -> Offset:
    if reader.replica is not None:
        return partition.log.log_end_offset
    return partition.last_stable_offset if reader.is_committed_only else partition.high_watermark


def _nearest_replica(node: Node, partition: Partition, entry: FetchEntry, rack: str) -> NodeId:
    """One in the consumer's rack that has its offset, the one that has come furthest; -1 where that is us, or none."""
    brokers = node.image.brokers
    own = brokers.get(node.node_id)
    if not partition.is_leading or (own is not None and own.rack == rack):
        return NO_NODE
    nearest, furthest = NO_NODE, entry.fetch_offset
    for replica in partition.isr:
        broker, follower = brokers.get(replica), partition.follower(replica)
        if broker is None or follower is None or broker.rack != rack or broker.fenced:
            continue
        if follower.log_start_offset <= entry.fetch_offset and follower.end_offset >= furthest:
            nearest, furthest = replica, follower.end_offset
    return nearest
