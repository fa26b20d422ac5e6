"""Metadata under a quorum that lags and fails, and on a disk that loses power at every change of a snapshot."""

import asyncio
from itertools import count

import pytest

from sim.disk_nodes import Kept
from sim.metadata_scenario import MetadataScenario
from tests.unit.broker.quorum.members import Member, Members


@pytest.mark.parametrize("first_seed", range(0, 60, 10))
def test_commits_that_lag_and_fail(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 10):
        MetadataScenario(seed).run()


def test_a_seed_twice_gives_the_same_trace() -> None:
    assert [MetadataScenario(seed).run() for seed in range(5)] == [MetadataScenario(seed).run() for seed in range(5)]


class Metadata:
    """A quorum of one on a machine that may die at any change of its disk."""

    def __init__(self, seed: int) -> None:
        self.members = Members(seed=seed)
        self.member: Member = self.members[1]
        self.acknowledged: list[str] = []
        self.asked: list[str] = []

    async def open(self) -> None:
        """Returns when it leads, or has died of trying."""
        await self.member.start()
        await self.members.until(lambda: not self.member.host.is_alive or self.member.quorum.is_leader)

    async def create_topics(self, number: int) -> None:
        for _ in range(number):
            name = f"topic-{len(self.asked)}"
            self.asked.append(name)
            await self.member.create(name)
            self.acknowledged.append(name)

    async def until_death(self, work: "asyncio.Task[None]", change: int) -> bool:
        """Whether the machine died before the work was done."""
        self.member.disk.crash_at(change)
        await self.members.until(lambda: work.done() or not self.member.host.is_alive)
        self.member.disk.crash_at(None)
        return not self.member.host.is_alive

    def check(self) -> None:
        assert set(self.acknowledged) <= set(self.member.topics) <= set(self.asked)


@pytest.mark.parametrize("kept", list(Kept))
def test_the_power_goes_at_every_change_of_a_snapshot(kept: Kept) -> None:
    async def scene(metadata: Metadata, change: int) -> bool:
        member = metadata.member

        async def snapshot_and_go_on() -> None:
            assert await member.snapshots.maybe_take()
            await metadata.create_topics(1)

        await metadata.open()
        for _ in range(2):
            await metadata.create_topics(25)
            await member.snapshots.maybe_take()
        await metadata.create_topics(25)
        has_died = await metadata.until_death(member.spawn(snapshot_and_go_on()), change)
        member.kill(kept)
        await metadata.open()
        metadata.check()
        await metadata.create_topics(1)
        metadata.check()
        return has_died

    for change in count():
        metadata = Metadata(change)
        if not metadata.members.world.run(scene(metadata, change)):
            break
    assert change > 10


def test_an_epoch_is_never_used_twice_however_often_the_start_fails() -> None:
    async def scene(metadata: Metadata, change: int) -> bool:
        member, epochs = metadata.member, []
        await metadata.open()
        epochs.append(member.quorum.epoch)
        member.kill()
        member.disk.crash_at(change)
        await metadata.open()
        has_died = not member.host.is_alive
        if not has_died:
            epochs.append(member.quorum.epoch)
        member.kill(Kept.PART)
        await metadata.open()
        epochs.append(member.quorum.epoch)
        assert epochs == sorted(set(epochs))
        return has_died

    for change in count():
        metadata = Metadata(change)
        if not metadata.members.world.run(scene(metadata, change)):
            break
    assert change > 5
