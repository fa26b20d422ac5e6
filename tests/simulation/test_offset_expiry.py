"""`offsets.retention.minutes` on a whole node, in virtual time: what nobody needs any more goes, also over a restart."""

import asyncio

from ottla.base.errors import ErrorCode
from ottla.wire import api
from ottla.wire.apis import ApiKey
from sim.client import SimulatedClient, Unanswered
from sim.network import CALM
from sim.node import SimulatedNode
from sim.world import World

GROUP, TOPIC = "audit", "orders"
MINUTE_SECONDS = 60
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.retention.minutes": "10",
    "offsets.retention.check.interval.ms": "5000",
}


async def create_topic(client: SimulatedClient) -> None:
    topic = api.CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
    answer = await client.request(ApiKey.CREATE_TOPICS, api.CreateTopicsRequest(topics=[topic]))
    assert answer.topics[0].error_code == ErrorCode.NONE
    find = api.FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])
    assert (await client.request(ApiKey.FIND_COORDINATOR, find)).coordinators[0].error_code == ErrorCode.NONE


async def commit(client: SimulatedClient, offset: int) -> None:
    Request = api.OffsetCommitRequest
    partition = Request.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = Request.OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
    answer = await client.request(ApiKey.OFFSET_COMMIT, Request(group_id=GROUP, topics=[topic]))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


async def committed(client: SimulatedClient) -> int:
    topic = api.OffsetFetchRequest.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
    group = api.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=GROUP, topics=[topic])
    while True:
        try:
            [answer] = (await client.request(ApiKey.OFFSET_FETCH, api.OffsetFetchRequest(groups=[group]))).groups
        except Unanswered:
            continue
        if answer.error_code == ErrorCode.NONE:
            return int(answer.topics[0].partitions[0].committed_offset)
        assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await asyncio.sleep(0.1)


def test_offsets_that_nobody_renews_expire_and_stay_gone() -> None:
    world = World(1, faults=CALM)
    node = SimulatedNode(world, SETTINGS)

    async def main() -> None:
        await node.start()
        client = SimulatedClient(node, "audit")
        await create_topic(client)
        await commit(client, 5)
        await asyncio.sleep(9 * MINUTE_SECONDS)
        await commit(client, 6)
        await asyncio.sleep(9 * MINUTE_SECONDS)
        assert await committed(client) == 6  # Renewed in time.
        await node.stop()
        await node.start()
        assert await committed(client) == 6
        await asyncio.sleep(MINUTE_SECONDS + 10)
        assert await committed(client) == -1
        await node.stop()
        await node.start()
        assert await committed(client) == -1
        await node.stop()

    world.run(main())
