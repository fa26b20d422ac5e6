"""A few brokers in one process and in virtual time: real partitions, fetchers and Fetch handlers over simulated disks.

The controller is a metadata image with the real decisions about ISRs; every broker follows it with an image of its own,
at once or, with `hold`, later. Fetches go through their codecs, and through `links` that tests cut.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.callers import Callers
from ottla.broker.fetch_session import FetchSessions
from ottla.broker.handlers.fetch import fetch
from ottla.broker.refused_batches import RefusedBatches
from ottla.broker.request import Peer, RequestContext
from ottla.log.directory import LogDirectory
from ottla.log.handles import HandleCache
from ottla.log.partition_log import LogSlice
from ottla.metadata.configs import BrokerLayers
from ottla.metadata.controller.alter_partition import decide_alter_partition
from ottla.metadata.controller.electorate import Electorate
from ottla.metadata.controller.partition_changes import Election, change_record, changed_partition
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_parts import PartitionImage, PartitionRef
from ottla.replica.fetcher import ReplicaFetchers
from ottla.replica.isr_changes import IsrChanges
from ottla.replica.leader_session import FETCH_VERSION, FetchSettings
from ottla.replica.partition import Partition
from ottla.replica.partitions import Partitions
from ottla.replica.storage import Storage
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.codec import codec_for
from ottla.wire.frame import decode_response
from ottla.wire.records import BatchBuilder, batches, records_of
from sim.clock import SimulatedClock
from sim.disk import SimulatedDisk
from sim.disk_nodes import Kept
from sim.loop import SimulatedLoop
from sim.trace import Trace
from sim.workers import SimulatedWorkers
from tests.unit.metadata.cluster import image_of, replay

PEER = Peer(host="127.0.0.1", port=4, listener="PLAINTEXT")
TOPIC = "orders"
LAG_SECONDS = 10.0
SETTINGS = FetchSettings(backoff_seconds=0.1)


class Broker:
    def __init__(self, world: "World", node_id: int) -> None:
        self.world = world
        self.node_id = node_id
        self.disk = SimulatedDisk(Random(node_id))
        self.disk.make_directory("/logs")
        self.disk.sync_directory("/")
        self.config: dict[str, str] = {}
        self.layers = BrokerLayers()
        self.held: list[object] | None = None
        self.fetches: list[api.FetchRequest] = []
        self.is_current = True
        self.node: Any = None

    async def open(self) -> None:
        """Also again, after `crash`."""
        world = self.world
        self.image, self.held = world.image.copy(), []  # What comes while it opens is applied afterwards.
        directory = LogDirectory.open(
            self.disk,
            "/logs",
            cluster_id="c",
            node_id=self.node_id,
            new_directory_id=UUID(int=self.node_id),
            handles=HandleCache(),
        )
        self.storage = Storage(directory, world.clock, world.workers)
        self.partitions = Partitions(
            node_id=self.node_id,
            storages=[self.storage],
            clock=world.clock,
            workers=world.workers,
            producer_id_expiration_ms=86_400_000,
            replica_lag_seconds=LAG_SECONDS,
        )
        await self.partitions.load(self.image, self.layers, is_current=self.is_current)
        self.sessions = FetchSessions(lambda: world.chance.randrange(1, 2**31))
        self.fetchers = ReplicaFetchers(node_id=self.node_id, broker_epoch=self.epoch, ask=self._ask, settings=SETTINGS)
        self.isr_changes = IsrChanges(
            node_id=self.node_id,
            broker_epoch=self.epoch,
            ask_controller=world.alter_partition,
            partitions=self.partitions,
            lag_seconds=LAG_SECONDS,
        )
        self.partitions.start_replication(fetchers=self.fetchers, propose=self.isr_changes.propose)
        self.isr_changes.start()
        self.node = SimpleNamespace(
            node_id=self.node_id,
            config=SimpleNamespace(string=self.config.get),
            partitions=self.partitions,
            fetch_sessions=self.sessions,
            refused_batches=RefusedBatches(world.clock),
            clock=world.clock,
            workers=world.workers,
            image=self.image,
            callers=Callers(self.image),
            stopping=False,
            verification=None,
        )
        await self.release()

    def epoch(self) -> int:
        return self.image.brokers[self.node_id].epoch

    async def close(self) -> None:
        await self.fetchers.close()
        await self.isr_changes.close()
        await self.storage.tasks.settle()

    async def crash(self, kept: Kept = Kept.EVERYTHING) -> None:
        """The process is gone, and with less than `EVERYTHING` the power too."""
        self.node = self.held = None
        await self.fetchers.close()
        await self.isr_changes.close()
        await self.storage.tasks.settle()
        self.disk.crash(kept)

    async def apply(self, *records: object) -> None:
        if self.held is not None:
            self.held += records
        elif self.node is not None:
            replay(self.image, *records)
            await self.partitions.apply(self.image, self.image.take_delta(), self.layers)

    def hold(self) -> None:
        """Metadata comes later here than elsewhere."""
        self.held = []

    async def release(self) -> None:
        held, self.held = self.held or [], None
        if held:
            await self.apply(*held)

    def partition(self, number: int = 0) -> Partition:
        found = self.partitions.find(TOPIC, number)
        assert found is not None
        return found

    async def _ask(self, leader_id: int, request: api.FetchRequest) -> api.FetchResponse:
        self.fetches.append(request)
        await asyncio.sleep(0.001)
        if (self.node_id, leader_id) in self.world.cut or self.world[leader_id].node is None:
            raise ApiError(ErrorCode.NETWORK_EXCEPTION, "no answer")
        response = await self.world.brokers[leader_id].serve_fetch(request)
        await asyncio.sleep(0.001)
        return response

    async def serve_fetch(self, request: api.FetchRequest, version: int = FETCH_VERSION) -> api.FetchResponse:
        encoded = codec_for(api.FetchRequest, version).encode(request)
        decoded, _ = codec_for(api.FetchRequest, version).decode(memoryview(encoded), 0)
        context = RequestContext(ApiKey.FETCH, version, 9, "test", PEER)
        parts = await fetch(self.node, context, decoded)
        data = b"".join(
            part.file.pread(part.size, part.position) if isinstance(part, LogSlice) and part.file else bytes(part)  # type: ignore[arg-type]
            for part in parts
        )
        _, response = decode_response(ApiKey.FETCH, version, memoryview(data)[4:])
        assert isinstance(response, api.FetchResponse)
        return response

    async def append(self, *values: bytes, number: int = 0, **fields: Any) -> int:
        """As leader; returns the offset of the last record."""
        builder = BatchBuilder(**fields)
        for value in values:
            builder.append(self.world.clock.now_ms(), None, value)
        result = await self.partition(number).append(memoryview(bytearray(builder.build())))
        return result.last_offset

    async def produce(self, *values: bytes, number: int = 0) -> int:
        """With acks=all."""
        offset = await self.append(*values, number=number)
        committed = self.partition(number).committed(offset)
        if committed is not None:
            await committed
        return offset

    def values(self, number: int = 0, *, end: int | None = None) -> list[bytes]:
        """All of the log, or what is below an offset."""
        found: list[bytes] = []
        for segment in self.partition(number).log.segments:
            data = memoryview(segment.handle().pread(segment.size, 0))
            for batch in batches(data):
                found += [
                    record.value or b"" for record in records_of(batch.view) if end is None or record.offset < end
                ]
        return found

    def log_bytes(self, number: int = 0) -> bytes:
        return b"".join(one.handle().pread(one.size, 0) for one in self.partition(number).log.segments)


class World:
    def __init__(self, seed: int, *records: object, brokers: int) -> None:
        self.chance = Random(seed)
        self.clock = SimulatedClock()
        self.loop = SimulatedLoop(self.clock, self.chance, Trace())
        self.workers = SimulatedWorkers(self.loop, self.chance, latency_seconds_max=0.002)
        self.image: MetadataImage = image_of(*records, brokers=brokers)
        self.brokers = {number + 1: Broker(self, number + 1) for number in range(brokers)}
        self.cut: set[tuple[int, int]] = set()
        self.proposals: list[api.AlterPartitionRequest] = []
        self.refusing: list[int] = []
        """Brokers that the controller knows to take no writes."""
        self.controller_answers: Callable[[api.AlterPartitionRequest], Awaitable[None]] | None = None

    def __getitem__(self, node_id: int) -> Broker:
        return self.brokers[node_id]

    async def commit(self, *records: object) -> None:
        replay(self.image, *records)
        for broker in self.brokers.values():
            await broker.apply(*records)

    async def alter_partition(self, request: api.AlterPartitionRequest) -> api.AlterPartitionResponse:
        self.proposals.append(request)
        await asyncio.sleep(0.001)
        if self.controller_answers is not None:
            await self.controller_answers(request)
        decision = decide_alter_partition(self.image, request, static_configs={}, refusing=self.refusing)
        if decision.records:
            await self.commit(*decision.records)
        return decision.reply

    async def elect(self, leader: int, *, isr: list[int] | None = None, number: int = 0) -> None:
        """Whether that is clean or not."""
        ref = self.ref(number)
        asked = ref.partition._replace(leader=leader, leader_epoch=ref.partition.leader_epoch + 1)
        if isr is not None:
            asked = asked._replace(isr=tuple(isr))
        record = change_record(ref, asked)
        assert record is not None
        await self.commit(record)

    async def change(self, number: int = 0, **changes: Any) -> None:
        """As the controller completes it: replicas, say."""
        ref = self.ref(number)
        after = changed_partition(
            ref, ref.partition._replace(**changes), Electorate(self.image, {}), election=Election.ONLINE
        )
        record = change_record(ref, after)
        assert record is not None
        await self.commit(record)

    def ref(self, number: int = 0) -> PartitionRef:
        topic = self.image.topics[TOPIC]
        return PartitionRef(topic, number, topic.partitions[number])

    def state(self, number: int = 0) -> PartitionImage:
        return self.ref(number).partition

    async def until(self, condition: Callable[[], object], seconds: float = 30.0) -> None:
        """Lets time go by until it is so."""
        deadline = self.clock.monotonic() + seconds
        while not condition():
            assert self.clock.monotonic() < deadline, f"it does not happen: {self.state()}"
            await asyncio.sleep(0.002)


def play(
    scene: Callable[[World], Coroutine[Any, Any, None]], *records: object, brokers: int = 3, seed: int = 1
) -> None:
    """Runs a scene in which the brokers are open."""
    world = World(seed, *records, brokers=brokers)

    async def run() -> None:
        for broker in world.brokers.values():
            await broker.open()
        await scene(world)
        for broker in world.brokers.values():
            await broker.close()

    asyncio.set_event_loop(world.loop)
    world.loop.run_until_complete(run())
