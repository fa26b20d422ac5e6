"""Quorums of a few nodes in one process: the driver over simulated disks and time, and peers that are called directly.

A member is a machine; `start` is a process on it, which `kill` ends between two instructions and `stop` in order.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any
from uuid import UUID
from zlib import crc32

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.peers import PeerLost
from ottla.broker.quorum.building import build_quorum
from ottla.broker.quorum.driver import Quorum
from ottla.broker.quorum.membership import Membership
from ottla.broker.quorum.own_snapshots import OwnSnapshots
from ottla.log.directory import LogDirectory
from ottla.log.handles import HandleCache
from ottla.metadata.configs import BrokerConfig
from ottla.metadata.controller.decision import Decision
from ottla.raft.voters import Endpoint, ReplicaKey, Voter
from ottla.wire import api
from ottla.wire.apis import API_INFO, ApiKey
from ottla.wire.codec import codec_for
from sim.disk_nodes import Kept
from sim.loop import HOST, Host
from sim.world import Machine, World
from tests.unit.metadata.cluster import topic_records

CLUSTER_ID = "EjRWeBI0VngSNFZ4EjRWeA"
DATA = "/data"
BOOTSTRAP_ID = -2
SNAPSHOT_BYTES = 2_000


class Member:
    def __init__(self, members: "Members", node_id: int, machine: Machine) -> None:
        self._members = members
        self.node_id = node_id
        self.machine = machine
        self.disk = machine.disk
        self.disk.make_directory(DATA)
        self.disk.sync_directory("/")
        self.disk.on_death = self._die
        self.directory_id = UUID(int=1000 + node_id)
        self.port = 9000 + node_id
        self.bootstrap_id: int | None = None
        self.cluster_id = CLUSTER_ID
        """By which it asks and answers."""
        self.is_cut_off = False
        self.host = Host(f"node-{node_id}")
        self.host.is_alive = False
        self._quorum: Quorum | None = None
        self._death: asyncio.Future[None] = machine.loop.create_future()

    @property
    def me(self) -> Voter:
        endpoint = Endpoint("PLAINTEXT", f"node-{self.node_id}", self.port)
        return Voter(key=ReplicaKey(self.node_id, self.directory_id), endpoints=(endpoint,))

    @property
    def is_alive(self) -> bool:
        """And it has a quorum to speak of."""
        return self.host.is_alive and self._quorum is not None

    @property
    def quorum(self) -> Quorum:
        assert self._quorum is not None
        return self._quorum

    async def start(self, *, joins: int | None = None, may_join: bool = True) -> None:
        """`joins`: whom it asks for the quorum; without it, it founds one if its directory is new.

        Returns when the member has started, or died of it.
        """
        self.bootstrap_id = joins
        self.host, self._quorum = Host(f"node-{self.node_id}"), None
        self._death = asyncio.get_running_loop().create_future()
        starting = self.spawn(self._start(may_join))
        await asyncio.wait((starting, self._death), return_when=asyncio.FIRST_COMPLETED)
        if self.host.is_alive:
            starting.result()

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """A task of this member's process."""
        token = HOST.set(self.host)
        context = copy_context()
        HOST.reset(token)
        return context.run(asyncio.get_running_loop().create_task, work)

    async def _start(self, may_join: bool) -> None:
        machine = self.machine
        directory = LogDirectory.open(
            self.disk,
            DATA,
            cluster_id=CLUSTER_ID,
            node_id=self.node_id,
            new_directory_id=self.directory_id,
            handles=HandleCache(16),
        )
        chance = machine.stream("quorum")
        quorum = await build_quorum(
            config=BrokerConfig({}),
            cluster_id=self.cluster_id,
            me=self.me,
            bootstrap_ids=() if self.bootstrap_id is None else (BOOTSTRAP_ID,),
            may_found=self.bootstrap_id is None,
            directory=directory,
            disk=self.disk,
            clock=machine.clock,
            workers=machine.workers,
            chance=chance.random,
        )
        peers = MemberPeers(self._members, self)
        self._quorum = quorum
        quorum.start(peers)
        self.snapshots = OwnSnapshots(quorum, machine.clock, snapshot_bytes=SNAPSHOT_BYTES, snapshot_seconds=0)
        membership = Membership(quorum, peers, me=self.me, cluster_id=self.cluster_id, may_join=may_join)
        self._membership = asyncio.get_running_loop().create_task(membership.settle(), name="membership")

    def kill(self, kept: Kept = Kept.EVERYTHING) -> None:
        """Ends it between two instructions, if a disk call has not ended it already."""
        self._die()
        self.disk.crash(kept)

    def _die(self) -> None:
        self.host.is_alive = False
        self.machine.loop.bury(self.host)
        if not self._death.done():
            self._death.set_result(None)
        self._members.on_death(self.node_id)

    async def stop(self) -> None:
        await self.spawn(self._stop())
        self.host.is_alive = False
        self._members.on_death(self.node_id)

    async def _stop(self) -> None:
        await self.quorum.resign()
        self._membership.cancel()
        await self.quorum.close()
        self.quorum.store.log.close()

    # ---- what a controller does ----

    async def create(self, name: str) -> None:
        number = crc32(name.encode())
        records = topic_records(name, number=number)
        await self.quorum.runtime.submit(lambda image: Decision(records=list(records), reply=None))

    @property
    def topics(self) -> list[str]:
        return list(self.quorum.image.topics)


class MemberPeers:
    """Implements `Peers`: the other member's quorum is asked, over the codecs."""

    def __init__(self, members: "Members", asker: Member) -> None:
        self._members = members
        self._asker = asker

    async def ask(self, node_id, api_key, api_version, request, *, timeout_seconds=None):  # type: ignore[no-untyped-def]
        members, asker = self._members, self._asker
        if node_id == BOOTSTRAP_ID:
            node_id = asker.bootstrap_id
        target = members.by_id[node_id]
        await asyncio.sleep(0.001)
        if target.is_cut_off or asker.is_cut_off:
            await asyncio.sleep(timeout_seconds)
            raise ApiError(ErrorCode.NETWORK_EXCEPTION, "no answer")
        if not target.is_alive:
            raise PeerLost(f"node {node_id} is not there")
        if api_key == ApiKey.API_VERSIONS:
            return api.ApiVersionsResponse()
        sent = over_the_wire(request, api_version)
        answer = asyncio.get_running_loop().create_future()
        members.under_way.append((node_id, answer))

        async def serve() -> None:
            is_question = api_key == ApiKey.DESCRIBE_QUORUM
            response = target.quorum.describe(sent) if is_question else await target.quorum.answer(sent)
            if not answer.done():
                answer.set_result(over_the_wire(response, api_version))

        target.spawn(serve())
        try:
            response = await asyncio.wait_for(answer, timeout_seconds)
        except TimeoutError:
            raise ApiError(ErrorCode.NETWORK_EXCEPTION, "no answer") from None
        assert isinstance(response, API_INFO[api_key].response)
        return response

    def watch(self, node_id: int, on_lost: Callable[[], None]) -> Any:
        raise AssertionError("the quorum watches nobody")

    def close(self) -> None:
        pass


def over_the_wire(message: Any, api_version: int) -> Any:
    codec = codec_for(type(message), api_version)
    copy, _ = codec.decode(memoryview(bytes(codec.encode(message))), 0)
    return copy


class Members:
    def __init__(self, count: int = 1, seed: int = 1) -> None:
        self.world = World(seed, worker_latency_seconds_max=0.002)
        self.by_id = {
            number: Member(self, number, self.world.new_machine(f"node-{number}")) for number in range(1, count + 1)
        }
        self.under_way: list[tuple[int, asyncio.Future[Any]]] = []

    def __getitem__(self, node_id: int) -> Member:
        return self.by_id[node_id]

    @property
    def alive(self) -> list[Member]:
        return [member for member in self.by_id.values() if member.is_alive]

    @property
    def leader(self) -> Member | None:
        return next((member for member in self.alive if member.quorum.is_leader and not member.is_cut_off), None)

    def on_death(self, node_id: int) -> None:
        for target_id, answer in self.under_way:
            if target_id == node_id and not answer.done():
                answer.set_exception(PeerLost("reset"))

    async def until(self, is_true: Callable[[], object], seconds_max: float = 30.0) -> None:
        deadline = self.world.clock.monotonic() + seconds_max
        while not is_true():
            assert self.world.clock.monotonic() < deadline, "it does not come to be"
            await asyncio.sleep(0.01)

    async def found(self) -> Member:
        """All of them as voters; the first leads."""
        first = self[1]
        await first.start()
        for member in list(self.by_id.values())[1:]:
            await member.start(joins=1)
        await self.until(lambda: all(len(member.quorum.voters) == len(self.by_id) for member in self.alive))
        return first

    def play(self, scene: Coroutine[Any, Any, None]) -> None:
        self.world.run(scene)


def describe(member: Member, topic: str = "__cluster_metadata", partition: int = 0) -> api.DescribeQuorumResponse:
    kind = api.DescribeQuorumRequest
    topics = [kind.TopicData(topic_name=topic, partitions=[kind.PartitionData(partition_index=partition)])]
    return member.quorum.describe(kind(topics=topics))
