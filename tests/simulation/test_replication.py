"""Three brokers replicate while links are cut, metadata comes late, leaders change and brokers die; seeded.

Judged all the time: what is below anybody's watermark never changes and is the same everywhere, and watermarks do not go
back. At the end, when all is well again: everything acknowledged is in every copy, and the copies are the same bytes.
"""

import asyncio
from collections import Counter
from uuid import UUID

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.metadata.controller.broker_partitions import plan_unclean_departure
from ottla.metadata.controller.brokers import decide_fence_broker, decide_unfence_broker
from ottla.metadata.controller.electorate import Electorate
from ottla.replica.partition import Partition
from ottla.wire import api
from ottla.wire.records import batches, records_of
from sim.disk_nodes import Kept
from tests.unit.metadata.cluster import broker_record, topic_records
from tests.unit.replica.brokers import TOPIC, World, play

PARTITIONS = 2
ACTIONS = 25


class Life:
    def __init__(self, world: World, *, is_power_safe: bool) -> None:
        self.world = world
        self.chance = world.chance
        self.is_power_safe = is_power_safe
        self.committed: dict[tuple[int, int], bytes] = {}
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.watermarks: dict[Partition, int] = {}
        self.is_over = False
        self.hits: Counter[str] = Counter()
        self.written = 0

    async def run(self) -> None:
        writers = [asyncio.create_task(self._write(number)) for number in range(PARTITIONS)]
        for _ in range(ACTIONS):
            await asyncio.sleep(self.chance.random() * 1.5)
            await self._act()
            self._judge()
        await self._recover()
        self.is_over = True
        await asyncio.gather(*writers)
        await self._agree()

    # -- clients -----------------------------------------------------------------------------------------------------

    async def _write(self, number: int) -> None:
        while not self.is_over:
            await asyncio.sleep(self.chance.random() * 0.05)
            leader = self.world[self.chance.randint(1, 3)]
            if leader.node is None:
                continue
            self.written += 1
            value = b"%d" % self.written * self.chance.randint(1, 50)
            try:
                partition = leader.partitions.leader_of(TOPIC, number)
                if partition.is_short_of_replicas:
                    partition.require_replicas()
                offset = await leader.append(value, number=number)
                committed = partition.committed(offset)
                if committed is not None:
                    await asyncio.wait_for(committed, 5)
            except (ApiError, TimeoutError) as error:
                name = error.code.name if isinstance(error, ApiError) else "time-out"
                self.hits[f"write answered {name}"] += 1
                continue
            self.hits["acknowledged"] += 1
            self.acknowledged[number, offset] = value

    # -- faults ------------------------------------------------------------------------------------------------------

    async def _act(self) -> None:
        action = self.chance.choice((self._cut, self._cut, self._heal, self._elect, self._elect, self._lag, self._die))
        self.hits[action.__name__] += 1
        await action()

    async def _cut(self) -> None:
        self.world.cut.add((self.chance.randint(1, 3), self.chance.randint(1, 3)))

    async def _heal(self) -> None:
        self.world.cut.clear()
        for broker in self.world.brokers.values():
            await broker.release()

    async def _elect(self) -> None:
        number = self.chance.randrange(PARTITIONS)
        alive = [one for one in self.world.state(number).isr if not self.world.image.brokers[one].fenced]
        if alive:
            await self.world.elect(self.chance.choice(alive), number=number)

    async def _lag(self) -> None:
        broker = self.world[self.chance.randint(1, 3)]
        if broker.held is None:
            broker.hold()

    async def _die(self) -> None:
        victim = self.chance.randint(1, 3)
        if any(set(self.world.state(number).isr) <= {victim} for number in range(PARTITIONS)):
            return
        broker = self.world[victim]
        kept = self.chance.choice(list(Kept)) if self.is_power_safe else Kept.EVERYTHING
        await broker.crash(kept)
        self.watermarks = {one: mark for one, mark in self.watermarks.items() if one not in set(broker.partitions)}
        await asyncio.sleep(self.chance.random() * 0.2)
        epoch = self.world.image.brokers[victim].epoch
        await self.world.commit(*decide_fence_broker(self.world.image, victim, epoch).records)
        await asyncio.sleep(self.chance.random() * 3)
        await self._come_back(victim)

    async def _come_back(self, node_id: int) -> None:
        image = self.world.image
        departure = plan_unclean_departure(image, Electorate(image, {}, leaving=node_id), node_id)
        epoch = image.offset + 1 + len(departure)
        incarnation = UUID(int=self.chance.getrandbits(64))
        registered = broker_record(node_id, broker_epoch=epoch, incarnation_id=incarnation, fenced=True)
        await self.world.commit(*departure, registered)
        await self.world[node_id].open()
        await asyncio.sleep(self.chance.random() * 0.2)
        await self.world.commit(*decide_unfence_broker(image, node_id, epoch).records)

    # -- judging -----------------------------------------------------------------------------------------------------

    def _judge(self) -> None:
        for broker in self.world.brokers.values():
            if broker.node is None:
                continue
            for number in range(PARTITIONS):
                partition = broker.partition(number)
                mark = partition.high_watermark
                assert mark >= self.watermarks.get(partition, 0), "a watermark went back"
                self.watermarks[partition] = mark
                self._judge_followers(partition)
                for offset, value in _records(partition):
                    if offset < mark:
                        known = self.committed.setdefault((number, offset), value)
                        assert known == value, f"{partition}: {offset} was {known!r}, is {value!r}"

    def _judge_followers(self, partition: Partition) -> None:
        """What a leader counts on is on its followers' disks."""
        for replica in partition.isr:
            follower, broker = partition.follower(replica), self.world[replica]
            if follower is None or broker.node is None or follower.broker_epoch != broker.epoch():
                continue
            copy = broker.partition(partition.topic_partition.partition)
            if copy.leader_epoch == partition.leader_epoch:
                assert follower.end_offset <= copy.log.durable_end_offset, f"{copy!r} has not synced what it reports"

    async def _recover(self) -> None:
        self.world.cut.clear()
        for broker in self.world.brokers.values():
            await broker.release()
        await self.world.until(
            lambda: all(len(self.world.state(number).isr) == 3 for number in range(PARTITIONS)), seconds=120
        )

    async def _agree(self) -> None:
        world = self.world
        for number in range(PARTITIONS):
            leader = world[world.state(number).leader]
            await world.until(
                lambda leader=leader, number=number: all(  # type: ignore[misc]
                    broker.partition(number).high_watermark
                    == broker.partition(number).log.log_end_offset
                    == leader.partition(number).log.log_end_offset
                    for broker in world.brokers.values()
                )
            )
            found = {(number, offset): value for offset, value in _records(leader.partition(number))}
            for place, value in self.acknowledged.items():
                if place[0] == number:
                    assert found.get(place) == value, f"{place} was acknowledged and is gone"
            assert len({broker.log_bytes(number) for broker in world.brokers.values()}) == 1
        self._judge()


def _records(partition: Partition) -> list[tuple[int, bytes]]:
    found = []
    for segment in partition.log.segments:
        for batch in batches(memoryview(segment.handle().pread(segment.size, 0))):
            found += [(record.offset, record.value or b"") for record in records_of(batch.view)]
    return found


def live(seed: int) -> Counter[str]:
    is_power_safe = seed % 2 == 1
    hits: Counter[str] = Counter()

    async def scene(world: World) -> None:
        life = Life(world, is_power_safe=is_power_safe)
        await life.run()
        hits.update(life.hits)

    configs = {"min.insync.replicas": "2", "internal.segment.bytes": "3000"}
    if is_power_safe:
        configs["flush.messages"] = "1"
    records = [
        *topic_records(TOPIC, partitions=PARTITIONS, replicas=(1, 2, 3)),
        *(api.ConfigRecord(resource_type=2, resource_name=TOPIC, name=k, value=v) for k, v in configs.items()),
    ]
    play(scene, *records, seed=seed)
    return hits


@pytest.mark.parametrize("first", range(0, 12, 6))
def test_six_seeds_from(first: int) -> None:
    hits: Counter[str] = Counter()
    for seed in range(first, first + 6):
        hits += live(seed)
    assert hits["acknowledged"] > 200, hits
    assert hits[f"write answered {ErrorCode.NOT_LEADER_OR_FOLLOWER.name}"], hits
