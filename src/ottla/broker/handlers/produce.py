"""Produce v3–13 (advertised from v0, as Kafka does, because older librdkafka looks at the floor; 0–2 are refused).

The hot path: batches are appended from the receive buffer and, unless a partition must roll, re-compress or fsync, the
answer is ready without a single suspension. Every batch of a request takes its place in the order of its partition before
anything is awaited, so that the next request of the connection cannot overtake any. acks=0 gets no answer, acks=1 the
leader's page cache, acks=all what is committed, for at most `timeout_ms`; with fewer in-sync replicas than
`min.insync.replicas` it is refused before the append, or after it where they went away meanwhile. Who does not lead says
who does (KIP-951). What is in flight behind a refused batch does not overtake it (broker/refused_batches.py).

The first batch of a transaction waits for its coordinator (broker/verification.py). From v12 on a producer does not
announce its partitions itself: the batch does.
"""

import asyncio
from typing import Final, NamedTuple, TypeAlias

from ottla.base.errors import ApiError, ErrorCode, RecordsRefused
from ottla.base.types import NodeId
from ottla.broker.current_leaders import current_leader, endpoints_of
from ottla.broker.node import Node
from ottla.broker.request import Api, Parts, RequestContext
from ottla.log.partition_log import AppendResult
from ottla.replica.partition import Partition
from ottla.wire.apis import ApiKey
from ottla.wire.hot import Produced, TopicKey, encode_produce
from ottla.wire.hot_produce import ProduceCall, decode_produce

ACKS_ALL: Final = -1
ABORTABLE_ERROR_FROM: Final = 11
ADDS_PARTITIONS_FROM: Final = 12
_TRANSACTIONAL_BIT: Final = 0x10
_ATTRIBUTES_LOW_BYTE: Final = 22

# What stands between a producer and its coordinator passes; this is the one code that makes every client try again
# without looking for another leader first, as in Kafka.
_PASSING: Final = frozenset(
    (
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)

Outcomes: TypeAlias = list[Produced]
Answers: TypeAlias = list[tuple[TopicKey, Outcomes]]


class _Slot(NamedTuple):
    """Where in the answer the outcome of one partition goes."""

    outcomes: Outcomes
    place: int
    partition: Partition


Appends: TypeAlias = "list[tuple[_Slot, asyncio.Task[AppendResult]]]"
Commits: TypeAlias = "list[tuple[_Slot, asyncio.Future[None]]]"


async def produce(node: Node, context: RequestContext, call: ProduceCall) -> Parts | None:
    if call.acks not in (0, 1, ACKS_ALL):
        return [encode_produce(context.correlation_id, context.api_version, _refuse_acks(call))]
    answers: Answers = []
    appends: Appends = []
    commits: Commits = []
    may_be_refused = False
    refused_batches = node.refused_batches
    for topic, partitions in call.topics:
        outcomes: Outcomes = []
        answers.append((topic, outcomes))
        for index, batch in partitions:
            try:
                partition = node.partitions.leader_of(topic, index)
                if batch is None or len(batch) <= _ATTRIBUTES_LOW_BYTE:
                    raise ApiError(ErrorCode.INVALID_RECORD, "no records")
                if call.acks == ACKS_ALL and partition.is_short_of_replicas:
                    partition.require_replicas()
                if partition.is_internal:
                    raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"only Ottla itself writes to {topic!r}")
                if refused_batches.refusals:
                    refused_batches.check(topic, index, batch, partition)
                if batch[_ATTRIBUTES_LOW_BYTE] & _TRANSACTIONAL_BIT:
                    appended = _begin_transactional(node, context, call, partition, batch)
                else:
                    appended = partition.begin_append(batch)
            except ApiError as error:
                outcomes.append(_refused(index, error))
                refused_batches.note(topic, index, batch, error.code)
                may_be_refused = True
                continue
            if isinstance(appended, AppendResult):
                outcomes.append(_produced(index, appended, partition))
                if call.acks == ACKS_ALL:
                    committed = partition.committed(appended.last_offset, max(call.timeout_ms, 0) / 1000)
                    if committed is not None:
                        commits.append((_Slot(outcomes, len(outcomes) - 1, partition), committed))
            else:
                outcomes.append(Produced(index, ErrorCode.UNKNOWN_SERVER_ERROR, -1, -1, -1))
                appends.append((_Slot(outcomes, len(outcomes) - 1, partition), appended))
                refused_batches.note_if_refused(appended, topic, index, batch)
    try:
        if appends:
            may_be_refused = True
            await _wait_appended(appends, commits, call, context.api_version)
        context.holds_frame = False
        if commits and not await _wait_committed(commits):
            may_be_refused = True
    finally:
        if commits:
            _let_go(commits)
    if call.acks == 0:
        _close_on_error(answers)
        return None
    leaders = _name_leaders(node, answers) if may_be_refused else ()
    endpoints = endpoints_of(node.image, leaders, context.peer.listener) if leaders else ()
    return [encode_produce(context.correlation_id, context.api_version, answers, endpoints)]


def _refuse_acks(call: ProduceCall) -> Answers:
    refusal = ApiError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={call.acks}: use 0, 1 or all (-1)")
    return [(topic, [_refused(index, refusal) for index, _ in partitions]) for topic, partitions in call.topics]


def _begin_transactional(
    node: Node, context: RequestContext, call: ProduceCall, partition: Partition, batch: memoryview
) -> "AppendResult | asyncio.Task[AppendResult]":
    if not call.transactional_id:
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactional records need a transactional id")
    return node.verification.begin_append(
        partition, batch, call.transactional_id, adds_partitions=context.api_version >= ADDS_PARTITIONS_FROM
    )


def _produced(index: int, appended: AppendResult, partition: Partition) -> Produced:
    return Produced(index, 0, appended.base_offset, appended.log_append_time_ms, partition.log.log_start_offset)


def _refused(index: int, error: ApiError) -> Produced:
    refused = error.refused if isinstance(error, RecordsRefused) else ()
    return Produced(index, error.code, -1, -1, -1, error.message, refused)


def _name_leaders(node: Node, answers: Answers) -> list[NodeId]:
    """Adds to every NOT_LEADER_OR_FOLLOWER who leads; returns them all."""
    leaders = []
    for topic, outcomes in answers:
        for place, produced in enumerate(outcomes):
            if produced.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                leader = current_leader(node.image, topic, produced.partition)
                if leader is not None:
                    outcomes[place] = produced._replace(current_leader=leader)
                    leaders.append(leader.leader_id)
    return leaders


def _close_on_error(answers: Answers) -> None:
    """acks=0 has no answer; a failure closes the connection instead, so that the client refreshes its metadata."""
    for topic, outcomes in answers:
        for produced in outcomes:
            if produced.error_code:
                raise ApiError(ErrorCode(produced.error_code), f"acks=0 produce to {topic!r}: {produced.error_message}")


async def _wait_appended(appends: Appends, commits: Commits, call: ProduceCall, api_version: int) -> None:
    await asyncio.wait([appended for _, appended in appends])
    for slot, appended in appends:
        outcomes, place, partition = slot
        error = appended.exception()
        if error is None:
            result = appended.result()
            outcomes[place] = _produced(outcomes[place].partition, result, partition)
            if call.acks == ACKS_ALL:
                _wait_for_commit(slot, result, commits, call.timeout_ms)
        elif isinstance(error, ApiError):
            outcomes[place] = _refused(outcomes[place].partition, _for_producer(error, api_version))
        else:
            raise error


def _wait_for_commit(slot: _Slot, result: AppendResult, commits: Commits, timeout_ms: int) -> None:
    outcomes, place, partition = slot
    try:
        committed = partition.committed(result.last_offset, max(timeout_ms, 0) / 1000)
        if committed is not None:
            commits.append((slot, committed))
    except ApiError as error:  # We lead no more.
        outcomes[place] = _refused(outcomes[place].partition, error)


def _for_producer(error: ApiError, api_version: int) -> ApiError:
    """A coordinator's refusal in a code that the producer's version understands (KIP-890)."""
    code = error.code
    if code in _PASSING or (code is ErrorCode.CONCURRENT_TRANSACTIONS and api_version < ADDS_PARTITIONS_FROM):
        code = ErrorCode.NOT_ENOUGH_REPLICAS
    elif code is ErrorCode.PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    elif code is ErrorCode.TRANSACTION_ABORTABLE and api_version < ABORTABLE_ERROR_FROM:
        code = ErrorCode.INVALID_TXN_STATE
    return error if code is error.code else ApiError(code, error.message)


async def _wait_committed(commits: Commits) -> bool:
    """Whether all of them are."""
    are_all_committed = True
    for (outcomes, place, _), committed in commits:
        try:
            await committed
        except ApiError as error:
            outcomes[place] = _refused(outcomes[place].partition, error)
            are_all_committed = False
    return are_all_committed


def _let_go(commits: Commits) -> None:
    """Nobody waits any more, perhaps because the client hung up: what fails of them later is nobody's business."""
    for _, committed in commits:
        if not committed.cancel() and not committed.cancelled():
            committed.exception()


APIS: Final[dict[int, Api]] = {
    ApiKey.PRODUCE: Api(versions=(0, 13), handle=produce, decode=decode_produce, holds_frame=True)
}
