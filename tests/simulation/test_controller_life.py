"""Brokers and their active controller, seed by seed: processes die and come back, connections end, controllers change.

The decisions are those of test_controller_model; here it is the conversation around them that is tried: sessions,
watches, probes, registrations and heartbeats, in virtual time, with commits that lag and leadership that is lost. In
the end everything is calm, and then every broker serves and every partition is led and in sync.
"""

import asyncio
from collections import Counter
from uuid import UUID

from ottla.base.errors import ApiError
from ottla.broker.active_controller import ActiveController
from ottla.broker.callers import Callers
from ottla.broker.lifecycle import BrokerLifecycle
from ottla.broker.registration import NodeIdentity
from ottla.metadata.configs import parse_broker_settings
from ottla.metadata.controller.decision import Decision
from ottla.metadata.controller.heartbeats import BrokerState
from ottla.metadata.image import MetadataImage
from ottla.metadata.runtime import ControllerRuntime
from ottla.wire import api
from ottla.wire.apis import ApiKey
from sim.metadata_log import SimulatedMetadataLog
from sim.world import World
from tests.unit.broker.controlled_cluster import CLUSTER_ID, FakeLeadership, FakePeers
from tests.unit.metadata.cluster import bootstrap_records, orders, settings

SEEDS = 25
STEPS = 60
BROKERS = (1, 2, 3, 4)
REPLICAS = (2, 3, 4)
CONFIG = parse_broker_settings({"leader.imbalance.check.interval.seconds": "10"})


class Process:
    """One broker's process, from its start to its death."""

    def __init__(self, life, broker_id, incarnation, clean_epoch):
        self._life = life
        self.is_up = True
        self.is_paused = False
        self.lifecycle = BrokerLifecycle(
            identity=NodeIdentity(
                node_id=broker_id,
                cluster_id=CLUSTER_ID,
                incarnation_id=UUID(int=incarnation),
                endpoints=[],
                rack=None,
                directory_ids=[directory_of(broker_id)],
                previous_broker_epoch=clean_epoch,
                is_controller=False,
            ),
            config=CONFIG,
            ask_controller=self._ask,
            applied_offset=lambda: life.runtime.image.offset,
        )
        self._main = asyncio.ensure_future(self._run())

    async def _run(self):
        await self.lifecycle.register()
        self.lifecycle.start()

    async def _ask(self, api_key, version, request):
        await asyncio.sleep(self._life.chance.random() * 0.02)
        while self.is_paused:
            await asyncio.sleep(0.1)
        controller = self._life.controller
        if api_key is ApiKey.BROKER_REGISTRATION:
            return api.BrokerRegistrationResponse(broker_epoch=await controller.register_broker(request))
        return await controller.heartbeat(request)

    async def stop(self):
        """The epoch of a clean shutdown, or -1."""
        return self.lifecycle.broker_epoch if await self.lifecycle.controlled_shutdown(20) else -1

    async def die(self):
        self.is_up = False
        self._main.cancel()
        await self.lifecycle.close()


def directory_of(broker_id):
    return UUID(int=800 + broker_id)


class Life:
    def __init__(self, seed):
        self.world = World(seed)
        self.chance = self.world.random
        self.seen = Counter()

    def run(self):
        self.world.run(self._main())
        return self.seen

    async def _main(self):
        self.log = SimulatedMetadataLog(
            self.world.clock, self.world.stream("log"), self.world.trace, loss_probability=0.002, lag_seconds_max=0.05
        )
        self.runtime = ControllerRuntime(self.log, MetadataImage())
        self.peers = FakePeers()
        self.peers.log_ends = {(one, "orders", 0): (one, 10 * one) for one in BROKERS}
        self.controller = ActiveController(
            runtime=self.runtime,
            config=CONFIG,
            settings=settings(),
            cluster_id=CLUSTER_ID,
            clock=self.world.clock,
            peers=self.peers,
            leadership=FakeLeadership(),
            callers=Callers(self.runtime.image),
        )
        elections = asyncio.ensure_future(self._elect())
        await self._found()
        self.incarnation = 1000
        self.clean_epochs = dict.fromkeys(BROKERS, -1)
        self.processes = {one: self._process(one) for one in BROKERS}
        for _ in range(STEPS):
            await self._step()
        await self._calm_down()
        elections.cancel()
        for process in self.processes.values():
            await process.die()
        await self.controller.close()

    async def _found(self):
        while not self.controller.is_active:
            await asyncio.sleep(0.1)
        directories = [directory_of(one) for one in REPLICAS]
        nobody = {"leader": -1, "isr": [], "eligible_leader_replicas": list(REPLICAS)}
        records = [*bootstrap_records(), *orders(REPLICAS, min_isr=2, directories=directories, **nobody)]
        while not self.runtime.image.topics:
            try:
                await self.runtime.submit(lambda image: Decision(records=records, reply=None))
            except ApiError:
                await asyncio.sleep(0.5)

    async def _elect(self):
        """The quorum: whoever lost its leadership leads again some time later, as another controller would."""
        while True:
            await asyncio.sleep(0.05)
            if not self.runtime.is_leading:
                self.seen["controller changed"] += 1
                self.controller.step_down()
                await asyncio.sleep(self.chance.random())
                self.runtime.follow(self.log.after(self.runtime.image.offset))
                self.runtime.resume()
                self.controller.take_over()

    # ---- what happens ----

    def _process(self, broker_id):
        self.incarnation += 1
        clean_epoch, self.clean_epochs[broker_id] = self.clean_epochs[broker_id], -1
        self.peers.gone.discard(broker_id)
        self.peers.silent.discard(broker_id)
        return Process(self, broker_id, self.incarnation, clean_epoch)

    async def _step(self):
        await asyncio.sleep(self.chance.choice((0.01, 0.3, 3)))
        broker_id = self.chance.choice(BROKERS)
        process = self.processes[broker_id]
        if not process.is_up:
            self.processes[broker_id] = self._process(broker_id)
            return
        action = self.chance.choice((self._kill, self._stop, self._pause, self._cut, self._restart, self._catch_up))
        await action(broker_id, process)
        self._check()

    async def _kill(self, broker_id, process):
        self.seen["killed"] += 1
        await process.die()
        self.peers.kill(broker_id)

    async def _restart(self, broker_id, process):
        """So quickly that nobody finds the address without a listener."""
        self.seen["restarted at once"] += 1
        await process.die()
        self.processes[broker_id] = self._process(broker_id)
        self.peers.cut(broker_id)

    async def _stop(self, broker_id, process):
        self.clean_epochs[broker_id] = await process.stop()
        self.seen["stopped cleanly"] += self.clean_epochs[broker_id] != -1
        await process.die()
        self.peers.kill(broker_id)

    async def _pause(self, broker_id, process):
        process.is_paused = True
        self.peers.silent.add(broker_id)
        await asyncio.sleep(self.chance.choice((1, 12)))
        registered = self.runtime.image.brokers.get(broker_id)
        self.seen["fenced by silence"] += registered is not None and registered.fenced
        process.is_paused = False
        self.peers.silent.discard(broker_id)

    async def _cut(self, broker_id, process):
        self.seen["cut"] += 1
        self.peers.cut(broker_id)

    async def _catch_up(self, *_):
        """The leader finds all in sync that are there."""
        topic = self.runtime.image.topics["orders"]
        partition, brokers = topic.partitions[0], self.runtime.image.brokers
        there = [one for one in REPLICAS if one in brokers and brokers[one].is_active and self.processes[one].is_up]
        if partition.leader not in there:
            return
        proposal = api.AlterPartitionRequest.PartitionData(
            partition_index=0,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr_with_epochs=[
                api.AlterPartitionRequest.BrokerState(broker_id=one, broker_epoch=brokers[one].epoch) for one in there
            ],
        )
        request = api.AlterPartitionRequest(
            broker_id=partition.leader,
            broker_epoch=brokers[partition.leader].epoch,
            topics=[api.AlterPartitionRequest.TopicData(topic_id=topic.id, partitions=[proposal])],
        )
        try:
            await self.controller.alter_partition(request)
        except ApiError:
            self.seen["proposal refused"] += 1

    # ---- what must hold ----

    def _check(self):
        image = self.runtime.image
        partition = image.topics["orders"].partitions[0]
        assert all(image.brokers[one].is_active for one in partition.isr), "a fenced broker is in sync"
        assert partition.leader == -1 or partition.leader in partition.isr
        self.seen["nobody leads"] += partition.leader == -1
        self.seen["compared"] += len(partition.last_known_elr) > 1

    async def _calm_down(self):
        for broker_id, process in self.processes.items():
            if not process.is_up:
                self.processes[broker_id] = self._process(broker_id)
        await asyncio.sleep(30)
        for _ in range(5):
            await self._catch_up()
            await asyncio.sleep(3)
        while not self.controller.is_active:
            await asyncio.sleep(0.1)
        image = self.runtime.image
        for broker_id, process in self.processes.items():
            assert process.lifecycle.state is BrokerState.ACTIVE
            assert image.brokers[broker_id].is_active
            assert image.brokers[broker_id].epoch == process.lifecycle.broker_epoch
        assert set(image.topics["orders"].partitions[0].isr) == set(REPLICAS)
        assert self.peers.watched == [one for one in BROKERS if one != 1]


RARE = (
    "controller changed",
    "killed",
    "restarted at once",
    "stopped cleanly",
    "fenced by silence",
    "nobody leads",
    "compared",
)


def test_whatever_happens_to_brokers_and_controllers_everybody_serves_in_the_end():
    seen = sum((Life(seed).run() for seed in range(SEEDS)), Counter())
    assert [name for name in RARE if not seen[name]] == []


def test_a_seed_runs_the_same_way_again():
    assert Life(3).run() == Life(3).run()
