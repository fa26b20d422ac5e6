"""The metadata quorum's APIs: Vote v2, BeginQuorumEpoch v1, EndQuorumEpoch v1, FetchSnapshot v1, UpdateRaftVoter v0 between
nodes; DescribeQuorum v0–2, AddRaftVoter v0–1, RemoveRaftVoter v0 for administrators, answered by the leader.

Fetches of the metadata log come to `handlers/fetch.py`, which passes them on. All of them are served before the node is
ready: without a quorum it never would be.

Not done: authorization; older versions between nodes, whose voters have no directories.
"""

from typing import Final

from ottla.broker.node import Node
from ottla.broker.request import Api, RequestContext
from ottla.raft.wire_requests import TOPIC_ID
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.message import Message


async def answer(node: Node, context: RequestContext, request: Message) -> Message:
    return await node.quorum.answer(request)


def is_metadata_fetch(request: object) -> bool:
    """Whether it is the quorum's: it names the metadata log and nothing else."""
    # By the number: comparing two UUIDs takes longer than finding their topic.
    return type(request) is api.FetchRequest and bool(request.topics) and request.topics[0].topic_id.int == TOPIC_ID.int


async def describe_quorum(
    node: Node, context: RequestContext, request: api.DescribeQuorumRequest
) -> api.DescribeQuorumResponse:
    return node.quorum.describe(request)


APIS: Final[dict[int, Api]] = {
    ApiKey.VOTE: Api(versions=(2, 2), handle=answer, is_internal=True),
    ApiKey.BEGIN_QUORUM_EPOCH: Api(versions=(1, 1), handle=answer, is_internal=True),
    ApiKey.END_QUORUM_EPOCH: Api(versions=(1, 1), handle=answer, is_internal=True),
    ApiKey.FETCH_SNAPSHOT: Api(versions=(1, 1), handle=answer, is_internal=True),
    ApiKey.UPDATE_RAFT_VOTER: Api(versions=(0, 0), handle=answer, is_internal=True),
    ApiKey.ADD_RAFT_VOTER: Api(versions=(0, 1), handle=answer, is_for_controller=True, is_early=True),
    ApiKey.REMOVE_RAFT_VOTER: Api(versions=(0, 0), handle=answer, is_for_controller=True, is_early=True),
    ApiKey.DESCRIBE_QUORUM: Api(versions=(0, 2), handle=describe_quorum, is_for_controller=True, is_early=True),
}
