"""FindCoordinator v0–6. Groups, transactions and share groups have no coordinator yet: every key is answered
COORDINATOR_NOT_AVAILABLE, which clients retry (docs/GAPS.md)."""

from typing import Final

from ottla.base.errors import ErrorCode
from ottla.broker.node import Node
from ottla.broker.request import Api, RequestContext
from ottla.wire import api
from ottla.wire.apis import ApiKey

BATCHED_FROM: Final = 4
REASON: Final = "consumer groups and transactions are not served yet: assign partitions instead (docs/GAPS.md)"


async def find_coordinator(
    node: Node, context: RequestContext, request: api.FindCoordinatorRequest
) -> api.FindCoordinatorResponse:
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if context.api_version < BATCHED_FROM:
        return api.FindCoordinatorResponse(error_code=code, error_message=REASON, node_id=-1, host="", port=-1)
    return api.FindCoordinatorResponse(
        coordinators=[
            api.FindCoordinatorResponse.Coordinator(
                key=key, node_id=-1, host="", port=-1, error_code=code, error_message=REASON
            )
            for key in request.coordinator_keys
        ]
    )


APIS: Final[dict[int, Api]] = {ApiKey.FIND_COORDINATOR: Api(versions=(0, 6), handle=find_coordinator)}
