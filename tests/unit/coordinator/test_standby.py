"""A broker that has a copy of a coordinator's partition: it replays what is committed, and takes over where it stands."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.standby import FOLLOW_SECONDS
from sim.world import World
from tests.unit.coordinator.memory_coordinator import GROUP, PRODUCER, TOPIC, Coordinator, MemoryCopy, MemoryLog

Scene = Callable[[Coordinator, MemoryCopy, Coordinator], Coroutine[Any, Any, None]]
MANY = 500


def play(scene: Scene) -> None:
    """With a leader, the copy of its log at another broker, and that broker."""
    world = World(1)

    async def run() -> None:
        leader = Coordinator(world, MemoryLog())
        await leader.lead()
        copy = MemoryCopy(leader.log)
        follower = Coordinator(world, leader.log)
        follower.runtime.follow(0, copy)
        await scene(leader, copy, follower)
        leader.runtime.close()
        follower.runtime.close()

    world.run(run())


async def replayed() -> None:
    await asyncio.sleep(3 * FOLLOW_SECONDS)


async def offset_of(coordinator: Coordinator, group_id: str = GROUP) -> int | None:
    found = await coordinator.committed(group_id)
    return None if found is None else found.offset


def test_a_copy_is_replayed_as_far_as_it_is_committed() -> None:
    async def scene(leader: Coordinator, copy: MemoryCopy, follower: Coordinator) -> None:
        for number in range(4):
            await leader.commit(number)
        copy.commit(3)
        await replayed()
        assert follower.runtime.replayed_offset(0) == 3
        copy.commit()
        await replayed()
        assert follower.runtime.replayed_offset(0) == 4

    play(scene)


def test_whoever_takes_over_reads_only_the_rest_of_the_log() -> None:
    async def scene(leader: Coordinator, copy: MemoryCopy, follower: Coordinator) -> None:
        for number in range(MANY):
            await leader.commit(number, group_id=f"g-{number}")
        copy.commit(MANY - 1)
        await replayed()
        leader.log.read_offsets.clear()
        await follower.lead()
        assert min(leader.log.read_offsets) == MANY - 1
        assert [await offset_of(follower, f"g-{number}") for number in (0, MANY - 1)] == [0, MANY - 1]
        assert follower.runtime.replayed_offset(0) == -1

    play(scene)


def test_of_many_commits_to_one_key_the_copy_has_the_last() -> None:
    async def scene(leader: Coordinator, copy: MemoryCopy, follower: Coordinator) -> None:
        for number in range(10):
            await leader.commit(number)
            copy.commit()
            await asyncio.sleep(FOLLOW_SECONDS / 4)
        await follower.lead()
        assert await offset_of(follower) == 9

    play(scene)


def test_a_copy_that_is_still_being_loaded_is_taken_over_in_the_midst_of_it() -> None:
    async def scene(leader: Coordinator, copy: MemoryCopy, follower: Coordinator) -> None:
        for number in range(MANY):
            await leader.commit(number, group_id=f"g-{number}")
        copy.commit(MANY - 1)
        await asyncio.sleep(FOLLOW_SECONDS)
        while not 0 < follower.runtime.replayed_offset(0) < MANY - 1:
            await asyncio.sleep(0)
        await follower.lead()
        offsets = [await offset_of(follower, f"g-{number}") for number in range(MANY)]
        assert offsets == list(range(MANY))
        with_records = [offset for offset in leader.log.read_offsets if 0 < offset < MANY - 1]
        assert with_records == sorted(set(with_records)), "nothing is replayed twice"

    play(scene)


def test_committed_records_that_are_lost_make_the_copy_start_over() -> None:
    async def scene(leader: Coordinator, copy: MemoryCopy, follower: Coordinator) -> None:
        await leader.commit(1)
        await leader.commit(2)
        copy.commit()
        await replayed()
        leader.log.cut_back(1)  # As an unclean election does it, and the new leader goes on.
        copy.commit(1)
        await leader.reload()
        await leader.commit(3, group_id="h")
        copy.commit()
        await replayed()
        await follower.lead()
        assert (await offset_of(follower), await offset_of(follower, "h")) == (1, 3)

    play(scene)


def test_a_log_that_begins_later_than_the_copy_has_come_is_loaded_from_its_start() -> None:
    async def scene(leader: Coordinator, copy: MemoryCopy, follower: Coordinator) -> None:
        await leader.commit(1)
        copy.commit()
        await replayed()
        await leader.commit(2, group_id="h")
        await leader.commit(3, group_id="i")
        copy.start_offset = 2
        copy.commit()
        await replayed()
        await follower.lead()
        assert [await offset_of(follower, group_id) for group_id in (GROUP, "h", "i")] == [None, None, 3]

    play(scene)


def test_what_a_leader_had_beyond_the_log_is_gone_when_it_leads_again() -> None:
    async def scene(leader: Coordinator, copy: MemoryCopy, _: Coordinator) -> None:
        await leader.commit(1)
        copy.commit()
        leader.log.is_committing = False
        committing = asyncio.ensure_future(leader.commit(2))
        await asyncio.sleep(1)
        leader.runtime.follow(0, copy)
        leader.log.commit(ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another leads"))
        assert await committing is not ErrorCode.NONE
        leader.log.cut_back(1)
        await replayed()
        assert leader.runtime.replayed_offset(0) == 1
        assert await leader.commit(3) is ErrorCode.NOT_COORDINATOR
        await leader.lead()
        assert await offset_of(leader) == 1

    play(scene)


def test_a_copy_that_cannot_be_read_goes_on_from_where_it_was() -> None:
    async def scene(leader: Coordinator, copy: MemoryCopy, follower: Coordinator) -> None:
        await leader.commit(1)
        copy.commit()
        await replayed()
        await leader.commit(2)
        leader.log.failure = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "no disk")
        copy.commit()
        await replayed()
        assert follower.runtime.replayed_offset(0) == 1
        leader.log.failure = None
        leader.log.read_offsets.clear()
        await replayed()
        assert follower.runtime.replayed_offset(0) == 2
        assert min(leader.log.read_offsets) == 1

    play(scene)


def test_a_partition_that_leaves_this_broker_is_followed_no_more() -> None:
    async def scene(leader: Coordinator, copy: MemoryCopy, follower: Coordinator) -> None:
        follower.runtime.resign(0)
        leader.log.read_offsets.clear()
        await leader.commit(1)
        copy.commit()
        await replayed()
        assert leader.log.read_offsets == []
        assert follower.runtime.replayed_offset(0) == -1

    play(scene)


def test_the_successor_knows_the_members_and_when_they_are_gone() -> None:
    async def scene(leader: Coordinator, copy: MemoryCopy, follower: Coordinator) -> None:
        joined = await leader.stable_member()
        await leader.commit(1, joined)
        copy.commit()
        await replayed()
        await follower.lead()
        assert await follower.heartbeat(joined) is ErrorCode.NONE
        assert follower.group().members[joined.member_id].assignment == b"all"

    play(scene)


def test_a_group_that_was_deleted_since_the_last_look_keeps_no_members() -> None:
    """The record in which the last member went away and the tombstone have one key: only the tombstone is replayed."""

    async def scene(leader: Coordinator, copy: MemoryCopy, follower: Coordinator) -> None:
        joined = await leader.stable_member()
        await leader.commit(1, joined)
        copy.commit()
        await replayed()
        await leader.leave(joined.member_id)
        await leader.runtime.submit(0, lambda machine: machine.decide_delete(GROUP))
        await leader.commit(2)
        copy.commit()
        await replayed()
        await follower.lead()
        assert follower.group().members == {}
        assert follower.group().generation == 0
        assert await follower.heartbeat(joined) is ErrorCode.UNKNOWN_MEMBER_ID
        assert await offset_of(follower) == 2

    play(scene)


def test_a_transaction_that_was_open_at_the_take_over_is_ended_by_the_successor() -> None:
    async def scene(leader: Coordinator, copy: MemoryCopy, follower: Coordinator) -> None:
        await leader.commit(1)
        await leader.commit_in_transaction(2)
        copy.commit()
        await replayed()
        await follower.lead()
        assert await offset_of(follower) == 1
        assert follower.machine.is_offset_pending(follower.group(), TOPIC, 0)
        await follower.end(is_commit=True, producer=PRODUCER)
        assert await offset_of(follower) == 2

    play(scene)
