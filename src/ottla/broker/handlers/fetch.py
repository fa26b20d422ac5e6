"""Fetch v4–18: long poll, sessions, topic ids, records sent from the segment files; for consumers and for followers.

A fetch reads the partitions that are due (fetch_session.py) until `max_bytes`; with less than `min_bytes` it waits, at most
`max_wait_ms`, and reads again. The first batch found is returned whole even if it is larger than every limit, so that a
reader always gets on. An offset inside a batch returns the whole batch. Consumers see what is below the high watermark;
with `isolation.level=read_committed`, what is below the last stable offset, and are told what in it was aborted. Followers
see the log to its end, and tell with their offsets what they have (fetch_reading.py).
"""

from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.current_leaders import current_leader, endpoints_of
from ottla.broker.fetch_reading import READ_COMMITTED, Fetched, Reader, read_entry
from ottla.broker.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, FetchSession, Replica
from ottla.broker.handlers.quorum import is_metadata_fetch
from ottla.broker.node import Node
from ottla.broker.request import Api, Parts, RequestContext
from ottla.log.partition_log import LogSlice
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.hot import FETCH_LEADERS_FROM, FETCH_TOPIC_IDS_FROM, FetchEncoder, TopicKey
from ottla.wire.hot_leaders import CurrentLeader
from ottla.wire.message import Message

FETCH_BYTES_MAX: Final = 55 << 20  # Kafka's fetch.max.bytes: what one answer may hold whatever the client asks.
EPOCH_MAX: Final = 2**31 - 1
REPLICA_STATE_FROM: Final = 15
FOLLOWERS_READABLE_FROM: Final = 11  # From here on consumers know that a leader may send them to another replica.
RACK_AWARE: Final = "RackAwareReplicaSelector"  # The end of the name of Kafka's class, which people configure.


async def fetch(node: Node, context: RequestContext, request: api.FetchRequest) -> Parts | Message:
    if is_metadata_fetch(request):
        node.callers.on_call(request.replica_state.replica_id, context)
        return await node.quorum.answer(request)
    version = context.api_version
    reader = _reader(node, request, version)
    if reader.replica is not None:
        node.callers.on_call(reader.replica.node_id, context)
    try:
        session, full = _find_session(node, request, reader.replica, by_topic_id=version >= FETCH_TOPIC_IDS_FROM)
    except ApiError as error:
        return _encode(node, context, error.code, NO_SESSION, [])
    try:
        _apply_request(node, session, request)
        fetched = await _read_or_wait(node, session, request, reader, full=full)
    finally:
        if session.session_id == NO_SESSION:
            node.fetch_sessions.end_passing(session)
    for one in fetched:
        one.entry.sent_high_watermark = one.high_watermark
        one.entry.sent_log_start_offset = one.log_start_offset
    return _encode(node, context, 0, session.session_id, fetched)


def _reader(node: Node, request: api.FetchRequest, version: int) -> Reader:
    replica: Replica | None = None
    if version >= REPLICA_STATE_FROM:
        if request.replica_state.replica_id >= 0:
            replica = Replica(request.replica_state.replica_id, request.replica_state.replica_epoch)
    elif request.replica_id >= 0:
        replica = Replica(request.replica_id, -1)
    wants_rack = replica is None and request.rack_id and version >= FOLLOWERS_READABLE_FROM
    selector = node.config.string("replica.selector.class") if wants_rack else None
    return Reader(
        replica=replica,
        is_committed_only=request.isolation_level == READ_COMMITTED,
        may_read_followers=replica is None and version >= FOLLOWERS_READABLE_FROM,
        rack=request.rack_id if selector is not None and selector.endswith(RACK_AWARE) else "",
    )


# -- sessions ---------------------------------------------------------------------------------------------------------


def _find_session(
    node: Node, request: api.FetchRequest, replica: Replica | None, *, by_topic_id: bool
) -> tuple[FetchSession, bool]:
    """The session and whether this is a full fetch, which names every partition and is answered for every one."""
    session_id, epoch = request.session_id, request.session_epoch
    sessions = node.fetch_sessions
    if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
        if session_id != NO_SESSION:
            sessions.remove(session_id)
        if epoch == FINAL_EPOCH:
            return sessions.begin_passing(by_topic_id=by_topic_id, replica=replica), True
        return sessions.create(by_topic_id=by_topic_id, replica=replica), True
    session = sessions.get(session_id)
    if session is None or session.replica != replica:
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
            entry.last_fetched_epoch = partition.last_fetched_epoch
            entry.log_start_offset = partition.log_start_offset
            entry.is_reported = False
            if session.replica is not None:  # It says itself what it knows (KIP-1166): an answer may have been in vain.
                entry.sent_high_watermark = partition.high_watermark
                entry.sent_log_start_offset = partition.log_start_offset
            if entry.partition is None or entry.partition.deleted:
                entry.bind(node.partitions.find(topic, partition.partition))


# -- reading ----------------------------------------------------------------------------------------------------------


async def _read_or_wait(
    node: Node, session: FetchSession, request: api.FetchRequest, reader: Reader, *, full: bool
) -> list[Fetched]:
    deadline = node.clock.monotonic() + request.max_wait_ms / 1000
    epoch = session.epoch
    is_news_ripe = False
    while True:
        fetched, size, must_answer, has_news = await _read_due(node, session, request, reader, full=full)
        left = deadline - node.clock.monotonic()
        if size >= request.min_bytes or must_answer or left <= 0 or node.stopping or not session.entries:
            return fetched
        if has_news and is_news_ripe:
            return fetched
        is_news_ripe = await session.wait_for(request.min_bytes - size, left, has_news=has_news)
        if session.epoch != epoch:  # Its client goes on with it over another connection.
            return []


async def _read_due(
    node: Node, session: FetchSession, request: api.FetchRequest, reader: Reader, *, full: bool
) -> tuple[list[Fetched], int, bool, bool]:
    """What the due partitions have, their bytes, whether something must be told at once, and whether there is anything
    that a follower should hear before long."""
    room = min(request.max_bytes, FETCH_BYTES_MAX)
    fetched: list[Fetched] = []
    size = 0
    must_answer = has_news = False
    is_follower = reader.replica is not None
    for entry in list(session.entries.values() if full else session.due):
        one = await read_entry(node, reader, entry, room - size, first=size == 0)
        is_new = one.has_news
        if read_bytes := one.size:
            size += read_bytes
            # Served ones go to the end of the line, so that a busy partition cannot starve the others.
            session.due.pop(entry, None)
            session.due[entry] = None
        elif one.must_be_told:
            must_answer = True
            session.due[entry] = None
        elif entry.fetch_offset >= one.end and not (is_follower and is_new):
            session.due.pop(entry, None)
        if full or read_bytes or is_new or one.must_be_told:
            fetched.append(one)
            has_news = has_news or (is_follower and is_new)
    return fetched, size, must_answer, has_news


# -- answering --------------------------------------------------------------------------------------------------------


def _encode(node: Node, context: RequestContext, error_code: int, session_id: int, fetched: list[Fetched]) -> Parts:
    topics: dict[TopicKey, list[Fetched]] = {}
    for one in fetched:
        topics.setdefault(one.entry.topic, []).append(one)
    encoder: FetchEncoder[LogSlice] = FetchEncoder(
        context.correlation_id, context.api_version, error_code, session_id, len(topics)
    )
    leaders: list[CurrentLeader] = []
    for topic, partitions in topics.items():
        encoder.begin_topic(topic, len(partitions))
        for one in partitions:
            size = one.size
            leader = None
            if one.error_code in _LEADER_ERRORS and context.api_version >= FETCH_LEADERS_FROM:
                leader = current_leader(node.image, topic, one.entry.index)
                leaders += [leader] if leader is not None else []
            encoder.partition(
                one.entry.index,
                one.error_code,
                one.high_watermark,
                one.last_stable_offset,
                one.log_start_offset,
                size,
                one.records if size else None,
                one.aborted,
                preferred_replica=one.preferred_replica,
                diverging=one.diverging,
                leader=leader,
            )
        encoder.end_topic()
    named = [leader.leader_id for leader in leaders]
    return [*encoder.finish(endpoints_of(node.image, named, context.peer.listener) if named else ())]


_LEADER_ERRORS: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)

APIS: Final[dict[int, Api]] = {ApiKey.FETCH: Api(versions=(4, 18), handle=fetch)}
