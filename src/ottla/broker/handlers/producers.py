"""InitProducerId v0–6 and DescribeProducers v0.

With version 6 a producer can take part in a commit of two phases that somebody else decides upon (KIP-939,
docs/decisions/0007): `enable_2pc` for transactions without a time-out of the producer's, `keep_prepared_txn` for one that
comes back to end what it left open.
"""

from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NO_EPOCH, NO_PRODUCER_ID
from ottla.broker.node import Node
from ottla.broker.request import Api, RequestContext
from ottla.coordinator.machine import ProducerIdentity
from ottla.coordinator.transactions.requests import InitProducer
from ottla.coordinator.transactions.transaction import EPOCH_BUMPING_VERSION, TWO_PHASE_TIMEOUT_MS, Transaction
from ottla.wire import api
from ottla.wire.apis import ApiKey

_FENCED_FROM: Final = 4  # Before it, a producer knows only INVALID_PRODUCER_EPOCH.


async def init_producer_id(
    node: Node, context: RequestContext, request: api.InitProducerIdRequest
) -> api.InitProducerIdResponse:
    try:
        if request.transactional_id is None:
            return api.InitProducerIdResponse(producer_id=await node.next_producer_id(), producer_epoch=0)
        initialised = await _initialise(node, _checked(node, request))
    except ApiError as error:
        code = error.code
        if code is ErrorCode.PRODUCER_FENCED and context.api_version < _FENCED_FROM:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        return api.InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH)
    response = api.InitProducerIdResponse(
        producer_id=initialised.client.producer_id, producer_epoch=initialised.client.epoch
    )
    if initialised.is_taken_over:
        response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch = initialised.identity
    return response


def _checked(node: Node, request: api.InitProducerIdRequest) -> InitProducer:
    is_unnamed = request.producer_id == NO_PRODUCER_ID
    if not request.transactional_id or is_unnamed is not (request.producer_epoch == NO_EPOCH):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a transactional id, and producer id and epoch both or neither")
    if request.keep_prepared_txn:
        if not is_unnamed:
            raise ApiError(ErrorCode.INVALID_REQUEST, "who keeps what is open comes back, and has no epoch yet")
        if node.transactions.version() < EPOCH_BUMPING_VERSION:  # Two identities are told apart by their epochs.
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "what is open can be kept from transaction.version 2 on")
    return InitProducer(
        transactional_id=request.transactional_id,
        timeout_ms=_timeout_ms(node, request),
        expected=None if is_unnamed else ProducerIdentity(request.producer_id, request.producer_epoch),
        keeps_open=request.keep_prepared_txn,
    )


def _timeout_ms(node: Node, request: api.InitProducerIdRequest) -> int:
    if request.enable2_pc:
        if not node.config.flag("transaction.two.phase.commit.enable"):
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "two-phase commit is switched off")
        return TWO_PHASE_TIMEOUT_MS
    timeout_ms_max = node.config.integer("transaction.max.timeout.ms")
    if not 0 < request.transaction_timeout_ms <= timeout_ms_max:
        raise ApiError(ErrorCode.INVALID_TRANSACTION_TIMEOUT, f"the time-out must be in 1..{timeout_ms_max} ms")
    return request.transaction_timeout_ms


async def _initialise(node: Node, request: InitProducer) -> Transaction:
    """Waits a moment for what was open before: most often it is gone then, and the producer need not ask again."""
    try:
        return await _decide(node, request)
    except ApiError as error:
        if error.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
            raise
    await node.transactions.wait_finished(request.transactional_id)
    return await _decide(node, request)


async def _decide(node: Node, request: InitProducer) -> Transaction:
    now_ms = node.clock.now_ms()
    decided = await node.transactions.change(
        request.transactional_id, lambda machine, producer_id: machine.decide_init(request, producer_id, now_ms)
    )
    if decided.state.is_decided:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS, "what was open is being aborted; ask again")
    return decided


async def describe_producers(
    node: Node, context: RequestContext, request: api.DescribeProducersRequest
) -> api.DescribeProducersResponse:
    response = api.DescribeProducersResponse()
    for topic in request.topics:
        answers: list[api.DescribeProducersResponse.PartitionResponse] = []
        for index in topic.partition_indexes:
            answer = api.DescribeProducersResponse.PartitionResponse(partition_index=index)
            try:
                answer.active_producers = _active_producers(node, topic.name, index)
            except ApiError as error:
                answer.error_code, answer.error_message = error.code, error.message
            answers.append(answer)
        response.topics.append(api.DescribeProducersResponse.TopicResponse(name=topic.name, partitions=answers))
    return response


def _active_producers(node: Node, topic: str, index: int) -> list[api.DescribeProducersResponse.ProducerState]:
    log = node.partitions.leader_of(topic, index).log
    return [
        api.DescribeProducersResponse.ProducerState(
            producer_id=producer_id,
            producer_epoch=producer.epoch,
            last_sequence=producer.last_sequence,
            last_timestamp=producer.last_timestamp,
            coordinator_epoch=producer.coordinator_epoch,
            current_txn_start_offset=producer.transaction_first_offset,
        )
        for producer_id, producer in log.producer_state.producers.items()
    ]


APIS: Final[dict[int, Api]] = {
    ApiKey.INIT_PRODUCER_ID: Api(versions=(0, 6), handle=init_producer_id),
    ApiKey.DESCRIBE_PRODUCERS: Api(versions=(0, 0), handle=describe_producers),
}
