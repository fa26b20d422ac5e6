"""The order of a start: who is answered before the node is ready, and which directories are refused."""

import asyncio
from pathlib import Path
from uuid import UUID

import pytest

from ottla.broker.dispatch import Dispatcher
from ottla.broker.node import World
from ottla.broker.registration import NodeIdentity
from ottla.broker.start import AdvertisedListener, StartRefused, close_node, prepare_node, start_node
from ottla.log.handles import HandleCache
from ottla.server.real_disk import RealDisk
from ottla.server.settings import settings_of_up
from ottla.wire import api
from ottla.wire.apis import ApiKey
from tests.unit.broker.real_node import RealNode
from tests.unit.fakes import FakeClock, FakeWorkers


def world() -> World:
    numbers = iter(range(1000, 2000))
    return World(
        clock=FakeClock(),
        workers=FakeWorkers(),
        disk=RealDisk(),
        new_uuid=lambda: UUID(int=next(numbers) << 64 | 7),
        new_session_id=lambda: next(numbers),
        chance=lambda: 0.5,
    )


def prepared(path: Path, **config: str):
    settings = settings_of_up(
        data=str(path),
        host="localhost",
        port=9092,
        overrides={name.replace("_", "."): value for name, value in config.items()},
        environment={},
    )
    listeners = [AdvertisedListener(name="PLAINTEXT", host="localhost", port=9092)]
    return prepare_node(world(), settings, listeners, HandleCache())


def test_only_the_quorum_is_answered_before_the_node_is_ready(tmp_path: Path) -> None:
    async def scene() -> None:
        opened = await prepared(tmp_path)
        node = RealNode.__new__(RealNode)
        node.node, node.dispatcher = opened.node, Dispatcher(opened.node)
        await opened.node.quorum.wait_leader()
        kind = api.DescribeQuorumRequest
        topic = kind.TopicData(topic_name="__cluster_metadata", partitions=[kind.PartitionData(partition_index=0)])
        described = await node.ask(ApiKey.DESCRIBE_QUORUM, kind(topics=[topic]))
        assert described.topics[0].partitions[0].leader_id == 1
        assert (await node.ask(ApiKey.API_VERSIONS, api.ApiVersionsRequest())).api_keys
        waiting = asyncio.create_task(node.ask(ApiKey.METADATA, api.MetadataRequest(topics=[])))
        await asyncio.sleep(0.02)
        assert not waiting.done()
        await start_node(opened)
        assert [broker.node_id for broker in (await waiting).brokers] == [1]
        await close_node(opened)

    asyncio.run(scene())


def test_a_broker_whose_place_another_process_took_registers_again(tmp_path: Path) -> None:
    """The last request of a process that died while it started may be late: which one lives, nobody can tell."""

    async def scene() -> None:
        opened = await prepared(tmp_path)
        node = opened.node
        await node.quorum.wait_leader()
        await node.lifecycle.register()
        mine = node.image.brokers[1].incarnation_id
        dead = NodeIdentity(
            node_id=1,
            cluster_id=node.cluster_id,
            incarnation_id=UUID(int=1),
            endpoints=[],
            rack=None,
            directory_ids=[opened.directories[0].directory_id],
        )
        await node.active_controller.register_broker(dead.broker_registration())
        async with asyncio.timeout(5):
            await node.wait_registered()
        registered = node.image.brokers[1]
        assert (registered.incarnation_id, registered.epoch) == (mine, node.lifecycle.broker_epoch)
        await start_node(opened)
        await close_node(opened)

    asyncio.run(scene())


def test_a_node_of_a_cluster_does_not_start_without_it(tmp_path: Path) -> None:
    """Its directory names no voters, and it never led: the cluster is elsewhere."""
    metadata = tmp_path / "__cluster_metadata-0"
    metadata.mkdir()
    state = '{"leaderId":2,"leaderEpoch":5,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    (metadata / "quorum-state").write_text(state)
    with pytest.raises(StartRefused, match=r"controller\.quorum\.bootstrap\.servers"):
        asyncio.run(prepared(tmp_path))


def test_a_bootstrap_server_that_is_no_address_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StartRefused, match="host:port"):
        asyncio.run(prepared(tmp_path, controller_quorum_bootstrap_servers="nonsense"))
