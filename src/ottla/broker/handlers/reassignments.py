"""ElectLeaders v0–2, AlterPartitionReassignments v0–1, ListPartitionReassignments v0: who leads, who holds replicas.

All are decided by the controller. A reassignment is answered once it is recorded; brokers carry it out, and it is
listed until they are done.

Not done: `timeout_ms` is not a bound of its own, a commit is one round of the quorum.
"""

from __future__ import annotations

from typing import Final

from ottla.base.errors import ApiError
from ottla.broker.node import Node
from ottla.broker.request import Api, RequestContext
from ottla.wire import api
from ottla.wire.apis import ApiKey


async def elect_leaders(
    node: Node, context: RequestContext, request: api.ElectLeadersRequest
) -> api.ElectLeadersResponse:
    try:
        return await node.active_controller.elect_leaders(request)
    except ApiError as error:
        return api.ElectLeadersResponse(
            error_code=error.code,
            replica_election_results=[
                api.ElectLeadersResponse.ReplicaElectionResult(
                    topic=topic.topic,
                    partition_result=[
                        api.ElectLeadersResponse.PartitionResult(
                            partition_id=index, error_code=error.code, error_message=error.message
                        )
                        for index in topic.partitions
                    ],
                )
                for topic in request.topic_partitions or ()
            ],
        )


async def alter_partition_reassignments(
    node: Node, context: RequestContext, request: api.AlterPartitionReassignmentsRequest
) -> api.AlterPartitionReassignmentsResponse:
    try:
        return await node.active_controller.alter_reassignments(request)
    except ApiError as error:
        return api.AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change,
            error_code=error.code,
            error_message=error.message,
        )


async def list_partition_reassignments(
    node: Node, context: RequestContext, request: api.ListPartitionReassignmentsRequest
) -> api.ListPartitionReassignmentsResponse:
    try:
        return await node.active_controller.list_reassignments(request)
    except ApiError as error:
        return api.ListPartitionReassignmentsResponse(error_code=error.code, error_message=error.message)


APIS: Final[dict[int, Api]] = {
    ApiKey.ELECT_LEADERS: Api(versions=(0, 2), handle=elect_leaders, is_for_controller=True),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Api(
        versions=(0, 1), handle=alter_partition_reassignments, is_for_controller=True
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Api(
        versions=(0, 0), handle=list_partition_reassignments, is_for_controller=True
    ),
}
