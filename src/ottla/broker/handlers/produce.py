"""Produce v3–13 (advertised from v0, as Kafka does, because older librdkafka looks at the floor; 0–2 are refused).

The hot path: batches are appended from the receive buffer and, unless a partition must roll, re-compress or fsync, the
answer is ready without a single suspension. acks=0 gets no answer, acks=1 the leader's page cache, acks=all what is
committed, for at most `timeout_ms`. Transactional batches are refused until transactions land (docs/GAPS.md).
"""

import asyncio
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import Offset
from ottla.broker.node import Node
from ottla.broker.request import Api, Parts, RequestContext
from ottla.replica.partition import Partition
from ottla.wire.apis import ApiKey
from ottla.wire.hot import ProduceCall, Produced, TopicKey, decode_produce, encode_produce

ACKS_ALL: Final = -1
_TRANSACTIONAL_BIT: Final = 0x10
_ATTRIBUTES_LOW_BYTE: Final = 22


async def produce(node: Node, context: RequestContext, call: ProduceCall) -> Parts | None:
    refused = _refuse_call(call)
    answers: list[tuple[TopicKey, list[Produced]]] = []
    waits: list[tuple[list[Produced], int, Partition, Offset, asyncio.Future[None]]] = []
    for topic, partitions in call.topics:
        outcomes: list[Produced] = []
        answers.append((topic, outcomes))
        for index, batch in partitions:
            if refused is not None:
                outcomes.append(_refused(index, refused))
                continue
            try:
                partition = node.partitions.leader_of(topic, index)
                if batch is None or len(batch) <= _ATTRIBUTES_LOW_BYTE:
                    raise ApiError(ErrorCode.INVALID_RECORD, "no records")
                if batch[_ATTRIBUTES_LOW_BYTE] & _TRANSACTIONAL_BIT:
                    raise ApiError(ErrorCode.INVALID_TXN_STATE, "transactions are not served yet (docs/GAPS.md)")
                result = await partition.append(batch)
            except ApiError as error:
                outcomes.append(_refused(index, error))
                continue
            outcomes.append(
                Produced(index, 0, result.base_offset, result.log_append_time_ms, partition.log.log_start_offset)
            )
            if call.acks == ACKS_ALL and (committed := partition.committed(result.last_offset)) is not None:
                waits.append((outcomes, len(outcomes) - 1, partition, result.last_offset, committed))
    context.holds_frame = False
    if waits:
        await _wait_committed(waits, call.timeout_ms)
    if call.acks == 0:
        _close_on_error(answers)
        return None
    return [encode_produce(context.correlation_id, context.api_version, answers)]


def _refuse_call(call: ProduceCall) -> ApiError | None:
    if call.acks not in (0, 1, ACKS_ALL):
        return ApiError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={call.acks}: use 0, 1 or all (-1)")
    if call.transactional_id is not None:
        return ApiError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactions are not served yet (docs/GAPS.md)"
        )
    return None


def _refused(index: int, error: ApiError) -> Produced:
    return Produced(index, error.code, -1, -1, -1, error.message)


def _close_on_error(answers: list[tuple[TopicKey, list[Produced]]]) -> None:
    """acks=0 has no answer; a failure closes the connection instead, so that the client refreshes its metadata."""
    for topic, outcomes in answers:
        for produced in outcomes:
            if produced.error_code:
                raise ApiError(ErrorCode(produced.error_code), f"acks=0 produce to {topic!r}: {produced.error_message}")


async def _wait_committed(
    waits: list[tuple[list[Produced], int, Partition, Offset, asyncio.Future[None]]], timeout_ms: int
) -> None:
    await asyncio.wait([committed for *_, committed in waits], timeout=max(timeout_ms, 0) / 1000)
    for outcomes, place, partition, _, committed in waits:
        index = outcomes[place].partition
        if not committed.done():
            committed.cancel()
            late = ApiError(
                ErrorCode.REQUEST_TIMED_OUT, f"{partition.topic_partition}: not committed in {timeout_ms} ms"
            )
            outcomes[place] = _refused(index, late)
        elif (error := committed.exception()) is not None:
            if not isinstance(error, ApiError):
                raise error
            outcomes[place] = _refused(index, error)


APIS: Final[dict[int, Api]] = {
    ApiKey.PRODUCE: Api(versions=(0, 13), handle=produce, decode=decode_produce, holds_frame=True)
}
