"""DescribeTransactions v0 and ListTransactions v0–2: what transactional ids there are, and what they have open."""

import re
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.node import Node
from ottla.broker.request import Api, RequestContext
from ottla.coordinator.transactions.requests import TransactionFilter
from ottla.coordinator.transactions.transaction import TransactionState
from ottla.wire import api
from ottla.wire.apis import ApiKey

Described = api.DescribeTransactionsResponse.TransactionState
Listed = api.ListTransactionsResponse.TransactionState

_STATE_LABELS: Final = frozenset(state.label for state in TransactionState)


async def describe_transactions(
    node: Node, context: RequestContext, request: api.DescribeTransactionsRequest
) -> api.DescribeTransactionsResponse:
    return api.DescribeTransactionsResponse(
        transaction_states=[await _describe(node, transactional_id) for transactional_id in request.transactional_ids]
    )


async def _describe(node: Node, transactional_id: str) -> Described:
    try:
        found = await node.transactions.submit(transactional_id, lambda machine: machine.describe(transactional_id))
    except ApiError as error:
        return Described(transactional_id=transactional_id, error_code=error.code)
    topics: dict[str, list[int]] = {}
    for topic, index in found.partitions:
        topics.setdefault(topic, []).append(index)
    return Described(
        transactional_id=transactional_id,
        transaction_state=found.state.label,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.started_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[
            api.DescribeTransactionsResponse.TopicData(topic=topic, partitions=indexes)
            for topic, indexes in topics.items()
        ],
    )


async def list_transactions(
    node: Node, context: RequestContext, request: api.ListTransactionsRequest
) -> api.ListTransactionsResponse:
    runtime = node.coordinators.transactions
    try:
        if runtime.is_loading:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "transactions are being loaded")
        wanted = _filter(request)
        now_ms = node.clock.now_ms()
        found = [
            one
            for index in runtime.machines()
            for one in await runtime.submit(index, lambda machine: machine.matching(wanted, now_ms))
        ]
    except ApiError as error:
        return api.ListTransactionsResponse(error_code=error.code)
    return api.ListTransactionsResponse(
        unknown_state_filters=[label for label in request.state_filters if label not in _STATE_LABELS],
        transaction_states=[
            Listed(
                transactional_id=one.transactional_id,
                producer_id=one.producer_id,
                transaction_state=one.state.label,
            )
            for one in found
        ],
    )


def _filter(request: api.ListTransactionsRequest) -> TransactionFilter:
    try:
        re.compile(request.transactional_id_pattern or "")
    except re.error as error:
        raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from error
    return TransactionFilter(
        states=frozenset(request.state_filters),
        producer_ids=frozenset(request.producer_id_filters),
        longer_than_ms=request.duration_filter,
        pattern=request.transactional_id_pattern,
    )


APIS: Final[dict[int, Api]] = {
    ApiKey.DESCRIBE_TRANSACTIONS: Api(versions=(0, 0), handle=describe_transactions),
    ApiKey.LIST_TRANSACTIONS: Api(versions=(0, 2), handle=list_transactions),
}
