"""A group whose members crash, pause, leave and come back, while connections break and the coordinator dies.

What must hold, whatever the seed: no partition has two owners in one generation; what one member has committed and was
told so, nobody ever reads less than; generations grow; and once nothing goes wrong any more, all members are in one
stable generation that covers every partition, within the time-outs that the protocol has for it.
"""

import asyncio
from typing import Final

from ottla.base.errors import ErrorCode
from ottla.wire import api
from ottla.wire.apis import ApiKey
from sim.client import Unanswered
from sim.group_member import (
    GROUP,
    PARTITION_COUNT,
    REBALANCE_TIMEOUT_MS,
    SESSION_TIMEOUT_MS,
    TOPIC,
    SimulatedMember,
)
from sim.network import NetworkFaults
from sim.subject import Subject, TroubledNode
from sim.troubled_cluster import Shape, TroubledCluster
from sim.world import World

MEMBER_COUNT: Final = 4
STATIC_COUNT: Final = 2
TROUBLE_SECONDS: Final = 90
CLUSTER_TROUBLE_SECONDS: Final = 40  # Several nodes cost several times as much: a seed is to cost about a CPU second.
CLUSTER_FAULT_EVERY_SECONDS_MAX: Final = 3.0
SECONDS_MAX: Final = 1_200  # Of virtual time: a wedged group would wait for ever.
CONVERGENCE_SECONDS_MAX: Final = 3 * (SESSION_TIMEOUT_MS + REBALANCE_TIMEOUT_MS) / 1000 + 60
SETTINGS: Final = {
    "offsets.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "500",
}


class GroupScenario:
    def __init__(self, subject: Subject, *, trouble_seconds: float = TROUBLE_SECONDS) -> None:
        self._trouble_seconds = trouble_seconds
        self.subject = subject
        self.world = subject.world
        self.hits = subject.hits
        self._members: dict[int, SimulatedMember] = {}
        self._lives: dict[int, asyncio.Future[None]] = {}
        self._zombies: list[asyncio.Future[None]] = []
        self._generations: dict[str, int] = {}
        self._owners: dict[tuple[int, int], str] = {}
        self._sent = [0] * PARTITION_COUNT
        self._acknowledged = [-1] * PARTITION_COUNT
        self._is_calm = False

    def run(self) -> str:
        self.world.run(asyncio.wait_for(self._main(), SECONDS_MAX))
        return self.world.digest()

    async def _main(self) -> None:
        await self.subject.start()
        await self._create_topic()
        lives = [asyncio.ensure_future(self._live(number)) for number in range(MEMBER_COUNT)]
        trouble = asyncio.ensure_future(self._trouble_members())
        await self.subject.trouble(self._trouble_seconds)
        await trouble
        self._is_calm = True
        self.subject.calm_down()
        await self._converge()
        for life in (*lives, *self._lives.values(), *self._zombies):
            life.cancel()
        await self.subject.stop()
        await self.subject.start()
        await self._check_offsets()
        await self.subject.stop()

    # -- members -------------------------------------------------------------------------------------------------------

    async def _live(self, number: int) -> None:
        """One incarnation after another."""
        instance_id = f"static-{number}" if number < STATIC_COUNT else None
        count = 0
        while True:
            count += 1
            chance = self.world.stream(f"member-{number}-{count}")
            client = self.subject.new_client(f"member-{number}-{count}")
            member = SimulatedMember(client, chance, self, instance_id)
            self._members[number] = member
            life = self._lives[number] = asyncio.ensure_future(member.run())
            if self._is_calm:
                await life
            await asyncio.wait([life], timeout=chance.random() * 90)
            if chance.random() < 0.5:
                member.leave()
                self.hits["member left"] += 1
                await asyncio.wait([life], timeout=chance.random() * 20)
            else:
                self.hits["member crashed"] += 1
            if life.done():
                life.result()  # A broken promise that it noticed ends the run.
            if instance_id is not None and chance.random() < 0.3:
                self._zombies.append(life)  # It goes on beside its successor, until it is fenced.
                self.hits["member doubled"] += 1
            else:
                life.cancel()
            await asyncio.sleep(chance.random() * (1 if self._is_calm else 8))

    async def _trouble_members(self) -> None:
        chance = self.world.random
        end = self.world.clock.monotonic() + self._trouble_seconds
        while self.world.clock.monotonic() < end:
            await asyncio.sleep(chance.random() * 15)
            member = self._members.get(chance.randrange(MEMBER_COUNT))
            if member is not None:
                member.pause_seconds = chance.random() * 3 * SESSION_TIMEOUT_MS / 1000

    # -- what members tell (Observer) ----------------------------------------------------------------------------------

    def on_assigned(self, member: SimulatedMember, generation: int, partitions: list[int]) -> None:
        self.hits["assigned"] += 1
        self.world.trace.add("assigned", member.identity, generation, partitions)
        assert generation >= self._generations.get(member.identity, 0), "generations that were assigned grow"
        self._generations[member.identity] = generation
        for partition in partitions:
            owner = self._owners.setdefault((generation, partition), member.identity)
            assert owner == member.identity, f"{partition} has two owners in generation {generation}"

    def on_lost(self, member: SimulatedMember) -> None:
        """Its partitions are no longer read by it."""

    def next_offset(self, partition: int) -> int:
        self._sent[partition] += 1
        return self._sent[partition]

    def on_committed(self, partition: int, offset: int) -> None:
        self.hits["committed"] += 1
        self._acknowledged[partition] = max(self._acknowledged[partition], offset)

    def floor(self, partition: int) -> int:
        return self._acknowledged[partition]

    def on_fetched(self, partition: int, offset: int, floor: int) -> None:
        assert offset <= self._sent[partition], f"{offset} of partition {partition} was never committed"
        assert offset >= floor, f"{floor} of partition {partition} was acknowledged, {offset} is read"

    def on_hit(self, what: str) -> None:
        self.hits[what] += 1

    # -- the end -------------------------------------------------------------------------------------------------------

    async def _converge(self) -> None:
        """Everybody is there, in one generation, and every partition has its owner."""
        deadline = self.world.clock.monotonic() + CONVERGENCE_SECONDS_MAX
        while not self._is_converged():
            told = [(member.identity, member.generation, member.partitions) for member in self._members.values()]
            assert self.world.clock.monotonic() < deadline, f"the group is wedged: {told}"
            await asyncio.sleep(1)
        self.hits["converged"] += 1

    def _is_converged(self) -> bool:
        members = list(self._members.values())
        owned = sorted(partition for member in members for partition in member.partitions)
        return owned == list(range(PARTITION_COUNT)) and len({member.generation for member in members}) == 1

    async def _check_offsets(self) -> None:
        client = self.subject.new_client("checker")
        topic = api.OffsetFetchRequest.OffsetFetchRequestTopics(
            name=TOPIC, partition_indexes=list(range(PARTITION_COUNT))
        )
        group = api.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=GROUP, topics=[topic])
        while True:
            await asyncio.sleep(0.1)
            answer = await client.request(ApiKey.OFFSET_FETCH, api.OffsetFetchRequest(groups=[group]))
            if answer.groups[0].error_code == ErrorCode.NONE:
                break
        for fetched in answer.groups[0].topics[0].partitions:
            partition = fetched.partition_index
            self.on_fetched(partition, fetched.committed_offset, self._acknowledged[partition])

    async def _create_topic(self) -> None:
        client = self.subject.new_client("setup")
        topic = api.CreateTopicsRequest.CreatableTopic(
            name=TOPIC, num_partitions=PARTITION_COUNT, replication_factor=self.subject.replica_count
        )
        while True:
            try:
                answer = await client.request(ApiKey.CREATE_TOPICS, api.CreateTopicsRequest(topics=[topic]))
            except Unanswered:
                continue
            assert answer.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
            return


def group_on_one_node(seed: int, *, is_power_safe: bool = True) -> GroupScenario:
    # A slow disk: whoever answers before it has synced is found out.
    world = World(seed, faults=NetworkFaults(reset_probability=0.004), worker_latency_seconds_max=0.2)
    return GroupScenario(
        TroubledNode(world, SETTINGS, death_count=3, is_power_safe=is_power_safe, has_disk_errors=True)
    )


def group_on_a_cluster(seed: int) -> GroupScenario:
    world = World(seed)
    subject = TroubledCluster(world, Shape.of(world), SETTINGS, fault_every_seconds_max=CLUSTER_FAULT_EVERY_SECONDS_MAX)
    return GroupScenario(subject, trouble_seconds=CLUSTER_TROUBLE_SECONDS)
