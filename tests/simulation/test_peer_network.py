"""The simulated way between nodes: what arrives, what is lost, who is told."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.peers import PeerLost, Peers
from ottla.wire import api
from ottla.wire.apis import ApiKey
from sim.client import SimulatedClient
from sim.cluster import SimulatedCluster
from sim.disk_nodes import Kept
from sim.peer_network import CALM, SILENT_SECONDS
from sim.world import World

ASKER, TARGET = 1, 2


def play(
    scene: Callable[[SimulatedCluster], Coroutine[Any, Any, None]],
    seed: int = 1,
    node_ids: Sequence[int] = (ASKER, TARGET),
) -> str:
    world = World(seed)
    cluster = SimulatedCluster(world, node_ids)

    async def main() -> None:
        await cluster.start()
        await scene(cluster)
        await cluster.stop()

    world.run(main())
    return world.digest()


def peers_of(cluster: SimulatedCluster) -> Peers:
    return cluster.nodes[ASKER].opened.node.peers


async def cluster_id_at(cluster: SimulatedCluster, node_id: int, timeout_seconds: float = 2.0) -> str | None:
    answer = await peers_of(cluster).ask(
        node_id, ApiKey.METADATA, 12, api.MetadataRequest(topics=[]), timeout_seconds=timeout_seconds
    )
    found: str | None = answer.cluster_id
    return found


def test_nodes_answer_each_other_and_clients() -> None:
    async def scene(cluster: SimulatedCluster) -> None:
        cluster_id = await cluster_id_at(cluster, TARGET)
        for node in cluster.nodes.values():
            client = SimulatedClient(node, "client")
            answer = await client.request(ApiKey.METADATA, api.MetadataRequest(topics=[]))
            assert answer.cluster_id == cluster_id
            assert sorted(broker.host for broker in answer.brokers) == ["node-1", "node-2"]

    play(scene)


def test_a_dead_process_refuses_and_resets_and_is_told_to_who_watches() -> None:
    async def scene(cluster: SimulatedCluster) -> None:
        losses: list[str] = []
        peers = peers_of(cluster)
        peers.watch(TARGET, lambda: losses.append("lost"))
        peers.watch(TARGET, lambda: losses.append("closed")).close()
        await asyncio.sleep(1)
        assert not losses
        cluster.nodes[TARGET].pause()  # So that the request is there and not answered.
        asked = asyncio.ensure_future(cluster_id_at(cluster, TARGET, 60))
        await asyncio.sleep(1)
        cluster.kill(TARGET, Kept.EVERYTHING)
        with pytest.raises(PeerLost):
            await asked
        with pytest.raises(PeerLost):
            await cluster_id_at(cluster, TARGET)
        assert losses == ["lost"]
        peers.watch(TARGET, lambda: losses.append("refused"))
        await asyncio.sleep(1)
        assert losses == ["lost", "refused"]
        await cluster.nodes[TARGET].start()
        assert await cluster_id_at(cluster, TARGET)

    play(scene)


@pytest.mark.parametrize("way", ["there", "back", "silent machine"])
def test_a_cut_link_and_a_dead_machine_say_nothing(way: str) -> None:
    async def scene(cluster: SimulatedCluster) -> None:
        lost_at: list[float] = []
        peers_of(cluster).watch(TARGET, lambda: lost_at.append(cluster.world.clock.monotonic()))
        await asyncio.sleep(1)
        begin = cluster.world.clock.monotonic()
        match way:
            case "there":
                cluster.network.cut_off({(ASKER, TARGET)})
            case "back":
                cluster.network.cut_off({(TARGET, ASKER)})
            case _:
                cluster.kill(TARGET, Kept.EVERYTHING, is_silent=True)
        with pytest.raises(ApiError) as raised:
            await cluster_id_at(cluster, TARGET, 3)
        assert raised.value.code is ErrorCode.NETWORK_EXCEPTION
        assert not isinstance(raised.value, PeerLost)
        assert cluster.world.clock.monotonic() - begin > 2.9
        assert not lost_at
        await asyncio.sleep(SILENT_SECONDS)
        assert lost_at
        cluster.network.mend({(ASKER, TARGET), (TARGET, ASKER)})
        if way == "silent machine":
            await cluster.nodes[TARGET].start()
        assert await cluster_id_at(cluster, TARGET)

    play(scene)


@pytest.mark.parametrize("end", ["process", "machine", "process behind a cut link", "connection"])
def test_connections_close_where_they_lead_with_who_made_them_but_for_those_of_a_dead_machine(end: str) -> None:
    """Node 1 leads the quorum: node 2 has connections to it."""

    async def scene(cluster: SimulatedCluster) -> None:
        callers = cluster.nodes[1].opened.node.callers
        await asyncio.sleep(5)
        assert callers.is_there(2)
        match end:
            case "process":
                cluster.kill(2, Kept.EVERYTHING)
            case "machine":
                cluster.kill(2, Kept.EVERYTHING, is_silent=True)
            case "process behind a cut link":
                cluster.network.cut_off({(2, 1)})
                cluster.kill(2, Kept.EVERYTHING)
            case _:
                cluster.network.refuse({(2, 1)})
        await asyncio.sleep(0.1)
        assert callers.is_there(2) == (end in ("machine", "process behind a cut link"))
        cluster.network.mend({(2, 1)})
        await asyncio.sleep(2)
        assert callers.is_there(2) == (end in ("machine", "connection"))
        if end != "connection":
            await cluster.nodes[2].start()

    play(scene)


def test_who_is_refused_by_a_firewall_and_asks_itself_is_known_to_live() -> None:
    async def scene(cluster: SimulatedCluster) -> None:
        changed: list[int] = []
        node = cluster.nodes[1].opened.node
        node.runtime.listen(SimpleNamespace(on_metadata=lambda delta, image: changed.extend(delta.brokers_changed)))
        await asyncio.sleep(5)
        cluster.network.refuse({(1, 2)})
        await asyncio.sleep(20)
        assert node.callers.is_there(2)
        assert not changed  # Nobody was fenced, not even for a moment.
        cluster.kill(2, Kept.EVERYTHING)
        await asyncio.sleep(0.1)
        assert changed == [2]
        cluster.network.mend({(1, 2)})
        await cluster.nodes[2].start()

    play(scene, node_ids=(1, 2, 3))


def test_a_reset_loses_what_is_under_way_and_nothing_later() -> None:
    async def scene(cluster: SimulatedCluster) -> None:
        lost = asyncio.Event()
        peers_of(cluster).watch(TARGET, lost.set)
        cluster.nodes[TARGET].pause()
        asked = asyncio.ensure_future(cluster_id_at(cluster, TARGET))
        await asyncio.sleep(0.5)
        cluster.network.reset((ASKER, TARGET))
        with pytest.raises(PeerLost):
            await asked
        await lost.wait()
        cluster.nodes[TARGET].resume()
        assert await cluster_id_at(cluster, TARGET)

    play(scene)


def test_a_paused_node_answers_when_it_goes_on() -> None:
    async def scene(cluster: SimulatedCluster) -> None:
        cluster.nodes[TARGET].pause()
        with pytest.raises(ApiError):
            await cluster_id_at(cluster, TARGET, 1)
        asked = asyncio.ensure_future(cluster_id_at(cluster, TARGET, 60))
        await asyncio.sleep(20)
        assert not asked.done()
        cluster.nodes[TARGET].resume()
        assert await asked

    play(scene)


def test_a_seed_gives_the_same_trace_with_every_fault() -> None:
    hits: set[str] = set()
    kinds: set[type] = set()

    async def scene(cluster: SimulatedCluster) -> None:
        cluster.network.faults = replace(
            CALM,
            straggler_probability=0.1,
            straggler_seconds_max=1.0,
            loss_probability=0.1,
            repetition_probability=0.1,
            reset_probability=0.05,
        )
        outcomes = await asyncio.gather(*(cluster_id_at(cluster, TARGET) for _ in range(100)), return_exceptions=True)
        kinds.update(type(outcome) for outcome in outcomes)
        hits.update(cluster.hits)

    assert play(scene, 7) == play(scene, 7) != play(scene, 8)
    assert kinds == {str, ApiError, PeerLost}
    assert hits >= {"request lost", "answer lost", "request repeated", "message late", "healthy connections reset"}
