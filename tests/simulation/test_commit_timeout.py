"""A follower of the offsets topic stands still: who commits is told so in time, over the connection that it has, and what it
commits again once the follower is out of the ISR is there. Virtual time."""

import asyncio

from ottla.base.errors import ErrorCode
from ottla.wire import api
from ottla.wire.apis import ApiKey
from sim.client import SimulatedClient
from sim.cluster import SimulatedCluster
from sim.world import World

GROUP, TOPIC = "g", "t"
NODES = (1, 2, 3)
TIMEOUT_SECONDS = 2.0
SETTINGS = {"offsets.commit.timeout.ms": "2000"}


def commit_request(offset: int) -> api.OffsetCommitRequest:
    partition = api.OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = api.OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
    return api.OffsetCommitRequest(group_id=GROUP, topics=[topic])


def code_of(answer: api.OffsetCommitResponse) -> ErrorCode:
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def test_a_commit_is_refused_in_time_and_its_connection_stays() -> None:
    world = World(1)

    async def main() -> None:
        cluster = SimulatedCluster(world, NODES, SETTINGS)
        await cluster.start()
        clients = {node_id: SimulatedClient(cluster.nodes[node_id], "client") for node_id in NODES}
        creation = api.CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=3)
        await clients[1].request(ApiKey.CREATE_TOPICS, api.CreateTopicsRequest(topics=[creation]))
        question = api.FindCoordinatorRequest(coordinator_keys=[GROUP])
        (found,) = (await clients[1].request(ApiKey.FIND_COORDINATOR, question)).coordinators
        client = clients[found.node_id]
        assert code_of(await client.request(ApiKey.OFFSET_COMMIT, commit_request(1))) is ErrorCode.NONE

        follower = next(node_id for node_id in NODES if node_id not in (found.node_id, 1))
        cluster.nodes[follower].pause()
        loop = asyncio.get_running_loop()
        began = loop.time()
        answers = await client.pipeline(ApiKey.OFFSET_COMMIT, [commit_request(2), commit_request(3)])
        assert {code_of(answer) for answer in answers} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert loop.time() - began < 2 * TIMEOUT_SECONDS
        while code_of(await client.request(ApiKey.OFFSET_COMMIT, commit_request(4))) is not ErrorCode.NONE:
            assert loop.time() - began < 60, "it leaves the ISR"
        cluster.nodes[follower].resume()
        await cluster.stop()

    world.run(main())
