"""A coordinator that is loaded anew, in any state: what is recorded is back, and the group works on."""

import asyncio

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.groups.group import GroupState
from ottla.wire import api
from tests.unit.coordinator.memory_coordinator import TOPIC, Coordinator, play

FULL = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")


def test_a_stable_group_goes_on_as_if_nothing_had_happened() -> None:
    async def scene(coordinator: Coordinator) -> None:
        member = await coordinator.stable_member()
        await coordinator.commit(5, member)
        await coordinator.reload()
        assert await coordinator.heartbeat(member) is ErrorCode.NONE
        assert (await coordinator.sync(member)).assignment == b"all"
        assert await coordinator.commit(6, member) is ErrorCode.NONE
        group = coordinator.group()
        assert (group.state, group.generation, group.leader_id) == (GroupState.STABLE, 1, member.member_id)
        assert (group.protocol_type, group.protocol_name) == ("consumer", "range")

    play(scene)


def test_sessions_begin_anew_after_loading() -> None:
    async def scene(coordinator: Coordinator) -> None:
        member = await coordinator.stable_member()
        await coordinator.reload()
        await asyncio.sleep(9)
        assert await coordinator.heartbeat(member) is ErrorCode.NONE
        await asyncio.sleep(11)
        assert coordinator.group().state is GroupState.EMPTY

    play(scene)


def test_static_members_are_still_known_by_their_instance() -> None:
    async def scene(coordinator: Coordinator) -> None:
        await coordinator.stable_member(group_instance_id="one")
        await coordinator.reload()
        again = await coordinator.join(group_instance_id="one")
        assert (again.generation_id, again.skip_assignment) == (1, True)
        assert (await coordinator.sync(again, group_instance_id="one")).assignment == b"all"

    play(scene)


def test_joins_that_waited_are_told_to_look_for_the_coordinator() -> None:
    async def scene(coordinator: Coordinator) -> None:
        member = await coordinator.stable_member()
        joining = asyncio.ensure_future(coordinator.new_member())
        await asyncio.sleep(1)
        await coordinator.reload()
        assert (await joining).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert coordinator.group().state is GroupState.STABLE
        assert await coordinator.heartbeat(member) is ErrorCode.NONE

    play(scene)


def test_syncs_that_waited_are_told_to_look_for_the_coordinator() -> None:
    async def scene(coordinator: Coordinator) -> None:
        first = await coordinator.stable_member()
        joining = asyncio.ensure_future(coordinator.new_member())
        await asyncio.sleep(1)
        first, second = await coordinator.join(first.member_id), await joining
        syncing = asyncio.ensure_future(coordinator.sync(second))
        await asyncio.sleep(1)
        await coordinator.reload()
        assert (await syncing).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await coordinator.heartbeat(first) is ErrorCode.ILLEGAL_GENERATION, "generation 2 was never assigned"
        assert await coordinator.heartbeat(second) is ErrorCode.UNKNOWN_MEMBER_ID
        again = await coordinator.join(first.member_id)
        assert (await coordinator.sync(again, {again.member_id: b"x"})).assignment == b"x"

    play(scene)


def test_offsets_pending_in_a_transaction_are_pending_again() -> None:
    async def scene(coordinator: Coordinator) -> None:
        await coordinator.commit(1)
        await coordinator.commit_in_transaction(2)
        await coordinator.reload()
        assert coordinator.machine.is_offset_pending(coordinator.group(), TOPIC, 0)
        await coordinator.end(is_commit=True)
        await coordinator.reload()
        committed = await coordinator.committed()
        assert committed is not None and committed.offset == 2

    play(scene)


def test_an_empty_group_is_loaded_with_the_time_it_became_empty() -> None:
    async def scene(coordinator: Coordinator) -> None:
        member = await coordinator.stable_member()
        await coordinator.commit(5, member)
        await coordinator.leave(member.member_id)
        since_ms = coordinator.group().state_timestamp_ms
        await asyncio.sleep(1_000)
        await coordinator.reload()
        assert coordinator.group().state is GroupState.EMPTY
        assert coordinator.group().state_timestamp_ms == since_ms

    play(scene)


@pytest.mark.parametrize("state", ["preparing", "completing", "stable", "empty"])
def test_a_group_works_on_after_a_reload_in_any_state(state: str) -> None:
    async def scene(coordinator: Coordinator) -> None:
        member = await coordinator.stable_member()
        waiting: list[asyncio.Future[api.JoinGroupResponse]] = []
        match state:
            case "preparing":
                waiting.append(asyncio.ensure_future(coordinator.new_member()))
            case "completing":
                await coordinator.join(member.member_id)
            case "empty":
                await coordinator.leave(member.member_id)
        await asyncio.sleep(1)
        await coordinator.reload()
        await asyncio.gather(*waiting)
        loop = asyncio.get_running_loop()
        begin = loop.time()
        joined = await coordinator.new_member()
        assert joined.error_code == ErrorCode.NONE
        assert (await coordinator.sync(joined, {joined.member_id: b"x"})).assignment == b"x"
        assert loop.time() - begin < 11, "the silent one is out with its session"

    play(scene)


# -- a disk that refuses ---------------------------------------------------------------------------------------------


def test_a_full_disk_refuses_an_assignment_and_takes_it_later() -> None:
    async def scene(coordinator: Coordinator) -> None:
        joined = await coordinator.new_member()
        coordinator.log.refusal_reason = FULL
        refused = await coordinator.sync(joined, {joined.member_id: b"x"})
        assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert coordinator.group().state is GroupState.COMPLETING_REBALANCE
        coordinator.log.refusal_reason = None
        assert (await coordinator.sync(joined, {joined.member_id: b"x"})).assignment == b"x"

    play(scene)


def test_a_leader_that_goes_away_after_a_refusal_does_not_wedge_the_group() -> None:
    async def scene(coordinator: Coordinator) -> None:
        leader = await coordinator.stable_member()
        joining = asyncio.ensure_future(coordinator.new_member())
        await asyncio.sleep(1)
        leader, follower = await coordinator.join(leader.member_id), await joining
        syncing = asyncio.ensure_future(coordinator.sync(follower))
        await asyncio.sleep(1)
        coordinator.log.refusal_reason = FULL
        await coordinator.sync(leader, {})
        coordinator.log.refusal_reason = None
        assert (await syncing).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        again = await coordinator.join(follower.member_id)
        assert (await coordinator.sync(again, {again.member_id: b"x"})).assignment == b"x"

    play(scene)


def test_a_group_that_could_not_be_recorded_as_empty_is_recorded_later() -> None:
    async def scene(coordinator: Coordinator) -> None:
        await coordinator.stable_member()
        coordinator.log.refusal_reason = FULL
        await asyncio.sleep(12)
        assert not coordinator.group().members
        assert coordinator.group().state is GroupState.PREPARING_REBALANCE
        coordinator.log.refusal_reason = None
        await asyncio.sleep(3)
        assert coordinator.group().state is GroupState.EMPTY
        assert coordinator.log.records()[-1].value.members == []

    play(scene)


def test_an_assignment_whose_write_fails_is_given_to_nobody() -> None:
    async def scene(coordinator: Coordinator) -> None:
        leader = await coordinator.stable_member()
        joining = asyncio.ensure_future(coordinator.new_member())
        await asyncio.sleep(1)
        leader, follower = await coordinator.join(leader.member_id), await joining
        syncing = asyncio.ensure_future(coordinator.sync(follower))
        await asyncio.sleep(1)
        coordinator.log.failure = FULL
        answer = await coordinator.sync(leader, {follower.member_id: b"x"})
        assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (await syncing).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        coordinator.log.failure = None
        await coordinator.loaded()
        assert coordinator.group().generation == 1

    play(scene)


def test_an_assignment_whose_commit_fails_is_given_to_nobody() -> None:
    async def scene(coordinator: Coordinator) -> None:
        leader = await coordinator.stable_member()
        joining = asyncio.ensure_future(coordinator.new_member())
        await asyncio.sleep(1)
        leader, follower = await coordinator.join(leader.member_id), await joining
        syncing = asyncio.ensure_future(coordinator.sync(follower))
        await asyncio.sleep(1)
        coordinator.log.is_committing = False
        assigning = asyncio.ensure_future(coordinator.sync(leader, {follower.member_id: b"x"}))
        await asyncio.sleep(1)
        assert not syncing.done() and not assigning.done()
        coordinator.log.commit(FULL)
        assert (await syncing).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (await assigning).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    play(scene)
