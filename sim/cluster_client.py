"""A client of a cluster, used like that of one node: every request finds the node that it must go to.

Partitions have their leaders, groups and transactional ids their coordinators; where one is it asks any node, and goes
there until a request is refused or not answered. Everything else goes to anyone.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.types import NodeId
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.message import Message
from sim.client import VERSIONS, SimulatedClient, Unanswered
from sim.cluster import SimulatedCluster

ANSWER_SECONDS_MAX: Final = 4.0  # Below what a client of Kafka's waits by default: here time is short.
ASK_AGAIN_SECONDS: Final = 0.1
ASKED_MAX: Final = 20  # For one route; then the request counts as unanswered.
_GROUP, _TRANSACTION = 0, 1


class _Leader(NamedTuple):
    topic: str
    partition: int


class _Coordinator(NamedTuple):
    key_type: int
    key: str


_Route = _Leader | _Coordinator


class ClusterClient:
    def __init__(self, cluster: SimulatedCluster, name: str, versions: Mapping[ApiKey, int] = VERSIONS) -> None:
        self._chance = cluster.world.stream(f"client/{name}")
        self._clients = {
            node_id: SimulatedClient(node, name, versions, answer_seconds_max=ANSWER_SECONDS_MAX)
            for node_id, node in cluster.nodes.items()
        }
        self._places: dict[_Route, NodeId] = {}
        self.name = name

    async def request(self, api_key: ApiKey, message: Message) -> Any:
        (answer,) = await self.pipeline(api_key, [message])
        return answer

    async def pipeline(self, api_key: ApiKey, messages: Sequence[Message]) -> list[Any]:
        """All go where the first goes. A break in between: `Unanswered`, with those so far."""
        route = _route_of(messages[0])
        if route is None:
            return await self._anyone().pipeline(api_key, messages)
        node_id = await self._find(route)
        try:
            answers = await self._clients[node_id].pipeline(api_key, messages)
        except Unanswered:
            self._places.pop(route, None)
            raise
        if any(_error_codes(answers[-1])):
            self._places.pop(route, None)
        return answers

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    # -- finding -----------------------------------------------------------------------------------------------------

    def _anyone(self) -> SimulatedClient:
        return self._chance.choice(list(self._clients.values()))

    async def _find(self, route: _Route) -> NodeId:
        for _ in range(ASKED_MAX):
            if route in self._places:
                return self._places[route]
            try:
                found = await (self._leader(route) if isinstance(route, _Leader) else self._coordinator(route))
                if found in self._clients:
                    self._places[route] = found
                    continue
            except Unanswered:
                pass
            await asyncio.sleep(ASK_AGAIN_SECONDS)
        raise Unanswered([])

    async def _leader(self, route: _Leader) -> NodeId | None:
        topic = api.MetadataRequest.MetadataRequestTopic(name=route.topic)
        request = api.MetadataRequest(topics=[topic], allow_auto_topic_creation=False)
        (found,) = (await self._anyone().request(ApiKey.METADATA, request)).topics
        return {one.partition_index: one.leader_id for one in found.partitions}.get(route.partition)

    async def _coordinator(self, route: _Coordinator) -> NodeId | None:
        request = api.FindCoordinatorRequest(key_type=route.key_type, coordinator_keys=[route.key])
        (found,) = (await self._anyone().request(ApiKey.FIND_COORDINATOR, request)).coordinators
        node_id: NodeId = found.node_id
        return node_id if found.error_code == ErrorCode.NONE else None


def _route_of(request: Any) -> _Route | None:
    match request:
        case api.ProduceRequest():
            topic = request.topic_data[0]
            return _Leader(topic.name, topic.partition_data[0].index)
        case api.FetchRequest():
            wanted = request.topics[0]
            return _Leader(wanted.topic, wanted.partitions[0].partition)
        case api.AddPartitionsToTxnRequest():
            return _Coordinator(_TRANSACTION, request.v3_and_below_transactional_id)
        case api.InitProducerIdRequest(transactional_id=None):
            return None
        case api.InitProducerIdRequest() | api.EndTxnRequest() | api.AddOffsetsToTxnRequest():
            return _Coordinator(_TRANSACTION, request.transactional_id or "")
        case api.OffsetFetchRequest():
            return _Coordinator(_GROUP, request.groups[0].group_id)
        case (
            api.JoinGroupRequest()
            | api.SyncGroupRequest()
            | api.HeartbeatRequest()
            | api.LeaveGroupRequest()
            | api.OffsetCommitRequest()
            | api.TxnOffsetCommitRequest()
        ):
            return _Coordinator(_GROUP, request.group_id)
        case _:
            return None


def _error_codes(message: Message) -> Iterator[int]:
    """All that an answer holds, on whatever level."""
    for field in message.STRUCT.fields:
        value = getattr(message, field.name)
        if field.name.endswith("error_code"):
            yield value
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, Message):
                    yield from _error_codes(item)
