"""Fetch v4–18: long poll, sessions, topic ids, records sent from the segment files.

A fetch reads the partitions that are due (fetch_session.py) until `max_bytes`; with less than `min_bytes` it waits, at most
`max_wait_ms`, and reads again. The first batch found is returned whole even if it is larger than every limit, so that a
reader always gets on. An offset inside a batch returns the whole batch. Consumers see what is below the high watermark;
with `isolation.level=read_committed`, what is below the last stable offset, and are told what in it was aborted.

Not done: fetches of followers and diverging epochs (with the cluster).
"""

import logging
from typing import Final, NamedTuple

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NO_OFFSET, Offset
from ottla.broker.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, FetchEntry, FetchSession
from ottla.broker.node import Node
from ottla.broker.request import Api, Parts, RequestContext
from ottla.log.partition_log import LogSlice
from ottla.log.transaction_index import AbortedTransaction
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.hot import FETCH_TOPIC_IDS_FROM, FetchEncoder, TopicKey

logger = logging.getLogger(__name__)

FETCH_BYTES_MAX: Final = 55 << 20  # Kafka's fetch.max.bytes: what one answer may hold whatever the client asks.
EPOCH_MAX: Final = 2**31 - 1
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

    @property
    def size(self) -> int:
        return 0 if self.records is None else self.records.size


async def fetch(node: Node, context: RequestContext, request: api.FetchRequest) -> Parts:
    version = context.api_version
    try:
        session, full = _find_session(node, request, by_topic_id=version >= FETCH_TOPIC_IDS_FROM)
    except ApiError as error:
        return _encode(context, error.code, NO_SESSION, [])
    _apply_request(node, session, request)
    try:
        fetched = await _read_or_wait(node, session, request, full=full)
    finally:
        if session.session_id == NO_SESSION:
            session.close()
    for one in fetched:
        one.entry.sent_high_watermark = one.high_watermark
        one.entry.sent_log_start_offset = one.log_start_offset
    return _encode(context, 0, session.session_id, fetched)


# -- sessions ---------------------------------------------------------------------------------------------------------


def _find_session(node: Node, request: api.FetchRequest, *, by_topic_id: bool) -> tuple[FetchSession, bool]:
    """The session and whether this is a full fetch, which names every partition and is answered for every one."""
    session_id, epoch = request.session_id, request.session_epoch
    sessions = node.fetch_sessions
    if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
        if session_id != NO_SESSION:
            sessions.remove(session_id)
        if epoch == FINAL_EPOCH:
            return FetchSession(NO_SESSION, by_topic_id=by_topic_id), True
        return sessions.create(by_topic_id=by_topic_id), True
    session = sessions.get(session_id)
    if session is None:
        raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"no fetch session {session_id}")
    expected = 1 if session.epoch == EPOCH_MAX else session.epoch + 1
    if epoch != expected:
        raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH, f"epoch {epoch}, expected {expected}")
    if by_topic_id != session.by_topic_id:
        # Its topics cannot be named in this version's answer; the client begins another session.
        raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, "the session names its topics otherwise")
    session.epoch = epoch
    return session, False


def _apply_request(node: Node, session: FetchSession, request: api.FetchRequest) -> None:
    by_id = session.by_topic_id
    for forgotten in request.forgotten_topics_data:
        topic: TopicKey = forgotten.topic_id.bytes if by_id else forgotten.topic
        for index in forgotten.partitions:
            session.forget(topic, index)
    for wanted in request.topics:
        topic = wanted.topic_id.bytes if by_id else wanted.topic
        for partition in wanted.partitions:
            entry = session.want(topic, partition.partition)
            entry.fetch_offset = partition.fetch_offset
            entry.max_bytes = partition.partition_max_bytes
            entry.current_leader_epoch = partition.current_leader_epoch
            if entry.partition is None or entry.partition.deleted:
                entry.bind(node.partitions.find(topic, partition.partition))


# -- reading ----------------------------------------------------------------------------------------------------------


async def _read_or_wait(node: Node, session: FetchSession, request: api.FetchRequest, *, full: bool) -> list[Fetched]:
    deadline = node.clock.monotonic() + request.max_wait_ms / 1000
    while True:
        fetched, size, must_answer = await _read_due(node, session, request, full=full)
        left = deadline - node.clock.monotonic()
        if size >= request.min_bytes or must_answer or left <= 0 or node.stopping or not session.entries:
            return fetched
        node.fetch_sessions.begin_wait(session)
        try:
            await session.wait_for(request.min_bytes - size, left)
        finally:
            node.fetch_sessions.end_wait(session)


async def _read_due(
    node: Node, session: FetchSession, request: api.FetchRequest, *, full: bool
) -> tuple[list[Fetched], int, bool]:
    """What the due partitions have, their bytes, and whether an error must be told at once."""
    room = min(request.max_bytes, FETCH_BYTES_MAX)
    is_committed_only = request.isolation_level == READ_COMMITTED
    fetched: list[Fetched] = []
    size = 0
    must_answer = False
    for entry in list(session.entries.values() if full else session.due):
        one = await _read_entry(node, entry, room - size, first=size == 0, is_committed_only=is_committed_only)
        if one.size:
            size += one.size
            # Served ones go to the end of the line, so that a busy partition cannot starve the others.
            session.due.pop(entry, None)
            session.due[entry] = None
        elif one.error_code:
            must_answer = True
            session.due[entry] = None
        elif entry.fetch_offset >= (one.last_stable_offset if is_committed_only else one.high_watermark):
            session.due.pop(entry, None)
        if full or one.size or one.error_code or _has_news(one):
            fetched.append(one)
    return fetched, size, must_answer


def _has_news(one: Fetched) -> bool:
    entry = one.entry
    return entry.sent_high_watermark != one.high_watermark or entry.sent_log_start_offset != one.log_start_offset


async def _read_entry(node: Node, entry: FetchEntry, room: int, *, first: bool, is_committed_only: bool) -> Fetched:
    partition = entry.partition
    if partition is None or partition.deleted:
        entry.bind(node.partitions.find(entry.topic, entry.index))
        partition = entry.partition
        if partition is None:
            by_id = isinstance(entry.topic, bytes)
            return Fetched(
                entry, ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1, None
            )
    log = partition.log
    if entry.current_leader_epoch != -1:
        error_code = partition.check_leader_epoch(entry.current_leader_epoch)
        if error_code:
            return Fetched(entry, error_code, -1, -1, None)
    records: LogSlice | None = None
    aborted: list[AbortedTransaction] | None = None
    max_bytes = min(room, entry.max_bytes)
    try:
        if room <= 0 and not first:
            pass
        elif is_committed_only:
            records, aborted = await partition.read_committed(entry.fetch_offset, max_bytes, min_one_batch=first)
        else:
            records = await partition.read(entry.fetch_offset, max_bytes, min_one_batch=first)
    except ApiError as error:
        return Fetched(entry, error.code, partition.high_watermark, log.log_start_offset, None)
    except OSError as error:
        logger.error("cannot read %s: %s", partition.topic_partition, error)
        return Fetched(entry, ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, None)
    return Fetched(
        entry, 0, partition.high_watermark, log.log_start_offset, records, partition.last_stable_offset, aborted
    )


# -- answering --------------------------------------------------------------------------------------------------------


def _encode(context: RequestContext, error_code: int, session_id: int, fetched: list[Fetched]) -> Parts:
    topics: dict[TopicKey, list[Fetched]] = {}
    for one in fetched:
        topics.setdefault(one.entry.topic, []).append(one)
    encoder: FetchEncoder[LogSlice] = FetchEncoder(
        context.correlation_id, context.api_version, error_code, session_id, len(topics)
    )
    for topic, partitions in topics.items():
        encoder.begin_topic(topic, len(partitions))
        for one in partitions:
            size = one.size
            encoder.partition(
                one.entry.index,
                one.error_code,
                one.high_watermark,
                one.last_stable_offset,
                one.log_start_offset,
                size,
                one.records if size else None,
                one.aborted,
            )
        encoder.end_topic()
    return [*encoder.finish()]


APIS: Final[dict[int, Api]] = {ApiKey.FETCH: Api(versions=(4, 18), handle=fetch)}
