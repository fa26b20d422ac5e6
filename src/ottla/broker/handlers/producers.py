"""InitProducerId v0–5 and DescribeProducers v0, for idempotent producers.

Not done: transactional ids, and v6 (KIP-939), come with transactions.
"""

from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.node import Node
from ottla.broker.request import Api, RequestContext
from ottla.wire import api
from ottla.wire.apis import ApiKey


async def init_producer_id(
    node: Node, context: RequestContext, request: api.InitProducerIdRequest
) -> api.InitProducerIdResponse:
    if request.transactional_id is not None:
        return api.InitProducerIdResponse(
            error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, producer_id=-1, producer_epoch=-1
        )
    return api.InitProducerIdResponse(producer_id=await node.next_producer_id(), producer_epoch=0)


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
    ApiKey.INIT_PRODUCER_ID: Api(versions=(0, 5), handle=init_producer_id),
    ApiKey.DESCRIBE_PRODUCERS: Api(versions=(0, 0), handle=describe_producers),
}
