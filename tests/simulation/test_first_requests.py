"""The first request of a group or of a transaction on a new cluster: it makes the internal topic, and whichever node is its
coordinator then, the client hears of no error. Every other node says that it is not the coordinator.

Virtual time. A client of a few tries (librdkafka's commit: three) would hand an error on to its application.
"""

from collections.abc import Awaitable, Callable

import pytest

from ottla.base.errors import ErrorCode
from ottla.wire import api
from ottla.wire.apis import ApiKey
from sim.client import VERSIONS, SimulatedClient
from sim.cluster import SimulatedCluster
from sim.world import World

TOPIC = "t"
NODES = (1, 2, 3)
GROUP, TRANSACTION = 0, 1
SPOKEN = {**VERSIONS, ApiKey.TXN_OFFSET_COMMIT: 3}  # By librdkafka.


def play(seed: int, key_type: int, ask: Callable[[SimulatedClient, str], Awaitable[int]]) -> dict[int, ErrorCode]:
    """A new cluster is asked by somebody at one node, who goes on at once where it is sent to, and asks the others then.
    Returns what each node has answered, the coordinator first."""
    world = World(seed)
    answers: dict[int, ErrorCode] = {}

    async def main() -> None:
        cluster = SimulatedCluster(world, NODES)
        await cluster.start()
        clients = {node_id: SimulatedClient(cluster.nodes[node_id], "client", SPOKEN) for node_id in NODES}
        creation = api.CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=3)
        await clients[1].request(ApiKey.CREATE_TOPICS, api.CreateTopicsRequest(topics=[creation]))
        key = f"key-{seed}"
        question = api.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        (found,) = (await clients[1 + seed % 3].request(ApiKey.FIND_COORDINATOR, question)).coordinators
        assert found.error_code == ErrorCode.NONE
        for node_id in (found.node_id, *(set(NODES) - {found.node_id})):
            answers[node_id] = ErrorCode(await ask(clients[node_id], key))
        await cluster.stop()

    world.run(main())
    return answers


async def commit(client: SimulatedClient, group: str) -> int:
    partition = api.OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = api.OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
    request = api.OffsetCommitRequest(group_id=group, topics=[topic])
    answer = await client.request(ApiKey.OFFSET_COMMIT, request)
    code: int = answer.topics[0].partitions[0].error_code
    return code


async def fetch_offsets(client: SimulatedClient, group: str) -> int:
    wanted = api.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None)
    answer = await client.request(ApiKey.OFFSET_FETCH, api.OffsetFetchRequest(groups=[wanted]))
    code: int = answer.groups[0].error_code
    return code


async def init_producer(client: SimulatedClient, transactional_id: str) -> int:
    request = api.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=10_000)
    code: int = (await client.request(ApiKey.INIT_PRODUCER_ID, request)).error_code
    return code


async def commit_in_transaction(client: SimulatedClient, group: str) -> int:
    """Of a transaction that nobody has begun: the coordinator says so."""
    partition = api.TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = api.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
    request = api.TxnOffsetCommitRequest(group_id=group, transactional_id="id", producer_id=1, topics=[topic])
    answer = await client.request(ApiKey.TXN_OFFSET_COMMIT, request)
    code: int = answer.topics[0].partitions[0].error_code
    return code


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("key_type", "ask"), [(GROUP, commit), (GROUP, fetch_offsets), (TRANSACTION, init_producer)])
def test_the_coordinator_of_a_new_topic_is_ready_or_waits(
    seed: int, key_type: int, ask: Callable[[SimulatedClient, str], Awaitable[int]]
) -> None:
    assert next(iter(play(seed, key_type, ask).values())) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("key_type", "ask"),
    [(GROUP, commit), (GROUP, fetch_offsets), (GROUP, commit_in_transaction), (TRANSACTION, init_producer)],
)
def test_every_other_node_sends_the_client_to_the_coordinator(
    key_type: int, ask: Callable[[SimulatedClient, str], Awaitable[int]]
) -> None:
    _, *others = play(1, key_type, ask).values()
    assert others == [ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR]
