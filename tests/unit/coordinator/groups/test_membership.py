"""Syncing, beating, leaving, and the ends of sessions and rebalances."""

import asyncio

import pytest

from ottla.base.errors import ErrorCode
from ottla.coordinator.groups.group import GroupState
from ottla.wire import api
from tests.unit.coordinator.memory_coordinator import Coordinator, play


async def two_joined(coordinator: Coordinator) -> tuple[api.JoinGroupResponse, api.JoinGroupResponse]:
    """A leader and a follower of generation 2, which is not assigned yet."""
    leader = await coordinator.stable_member()
    joining = asyncio.ensure_future(coordinator.new_member())
    await asyncio.sleep(1)
    leader = await coordinator.join(leader.member_id)
    return leader, await joining


async def two_stable(coordinator: Coordinator) -> tuple[api.JoinGroupResponse, api.JoinGroupResponse]:
    leader, follower = await two_joined(coordinator)
    assignments = {leader.member_id: b"left", follower.member_id: b"right"}
    synced = await asyncio.gather(coordinator.sync(follower), coordinator.sync(leader, assignments))
    assert [answer.assignment for answer in synced] == [b"right", b"left"]
    return leader, follower


def test_followers_wait_for_the_leaders_assignment() -> None:
    async def scene(coordinator: Coordinator) -> None:
        leader, follower = await two_joined(coordinator)
        waiting = asyncio.ensure_future(coordinator.sync(follower))
        await asyncio.sleep(1)
        assert not waiting.done()
        assert coordinator.group().state is GroupState.COMPLETING_REBALANCE
        await coordinator.sync(leader, {follower.member_id: b"yours", "a stranger": b"?"})
        answer = await waiting
        assert (answer.assignment, answer.protocol_type, answer.protocol_name) == (b"yours", "consumer", "range")
        assert coordinator.group().state is GroupState.STABLE

    play(scene)


def test_a_generation_is_recorded_with_its_assignments() -> None:
    async def scene(coordinator: Coordinator) -> None:
        leader, follower = await two_stable(coordinator)
        record = coordinator.log.records()[-1]
        assert record.value_version == 3
        value = record.value
        assert (value.generation, value.leader, value.protocol, value.protocol_type) == (
            2, leader.member_id, "range", "consumer",
        )  # fmt: skip
        assert {member.member_id: member.assignment for member in value.members} == {
            leader.member_id: b"left",
            follower.member_id: b"right",
        }
        first = value.members[0]
        assert (first.client_id, first.client_host, first.session_timeout, first.rebalance_timeout) == (
            "client", "/host", 10_000, 60_000,
        )  # fmt: skip
        assert first.subscription == b"metadata"

    play(scene)


def test_a_sync_in_a_stable_group_gets_the_assignment_again() -> None:
    async def scene(coordinator: Coordinator) -> None:
        _, follower = await two_stable(coordinator)
        assert (await coordinator.sync(follower)).assignment == b"right"

    play(scene)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 7}, ErrorCode.ILLEGAL_GENERATION),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"group_instance_id": "unheard of"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_sync_that_does_not_fit_is_refused(fields: dict[str, object], code: ErrorCode) -> None:
    async def scene(coordinator: Coordinator) -> None:
        member = await coordinator.stable_member()
        assert (await coordinator.sync(member, **fields)).error_code == code

    play(scene)


def test_a_sync_while_others_join_is_told_to_join_too() -> None:
    async def scene(coordinator: Coordinator) -> None:
        first = await coordinator.stable_member()
        joining = asyncio.ensure_future(coordinator.new_member())
        await asyncio.sleep(1)
        assert (await coordinator.sync(first)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        joining.cancel()

    play(scene)


def test_a_member_that_joins_anew_sends_the_waiting_ones_back_to_join() -> None:
    """A rebalance during a rebalance."""

    async def scene(coordinator: Coordinator) -> None:
        leader, follower = await two_joined(coordinator)
        waiting = asyncio.ensure_future(coordinator.sync(follower))
        await asyncio.sleep(1)
        third = asyncio.ensure_future(coordinator.new_member())
        assert (await waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        answers = await asyncio.gather(coordinator.join(leader.member_id), coordinator.join(follower.member_id), third)
        assert {answer.generation_id for answer in answers} == {3}

    play(scene)


def test_a_leader_that_never_assigns_is_out_with_its_session() -> None:
    async def scene(coordinator: Coordinator) -> None:
        _, follower = await two_joined(coordinator)
        answer = await coordinator.sync(follower)
        assert answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
        again = await coordinator.join(follower.member_id)
        assert again.leader == follower.member_id and len(again.members) == 1

    play(scene)


def test_a_leader_that_beats_but_never_assigns_is_out_with_the_rebalance_time_out() -> None:
    async def scene(coordinator: Coordinator) -> None:
        loop = asyncio.get_running_loop()
        leader, follower = await two_joined(coordinator)
        begin = loop.time()
        waiting = asyncio.ensure_future(coordinator.sync(follower))
        while await coordinator.heartbeat(leader) is ErrorCode.NONE:
            await asyncio.sleep(3)
        assert (await waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert loop.time() - begin == pytest.approx(60, abs=4)
        assert await coordinator.heartbeat(leader) is ErrorCode.UNKNOWN_MEMBER_ID

    play(scene)


def test_a_follower_that_never_syncs_is_out_with_the_rebalance_time_out() -> None:
    async def scene(coordinator: Coordinator) -> None:
        leader, follower = await two_joined(coordinator)
        await coordinator.sync(leader)
        codes = []
        for _ in range(21):
            await asyncio.sleep(3)
            codes.append(await coordinator.heartbeat(leader))
            await coordinator.heartbeat(follower)
        assert codes[0] is ErrorCode.NONE and codes[-1] is ErrorCode.REBALANCE_IN_PROGRESS
        assert await coordinator.heartbeat(follower) is ErrorCode.UNKNOWN_MEMBER_ID

    play(scene)


def test_heartbeats_keep_a_session_and_silence_ends_it() -> None:
    async def scene(coordinator: Coordinator) -> None:
        member = await coordinator.stable_member()
        for _ in range(5):
            await asyncio.sleep(9)
            assert await coordinator.heartbeat(member) is ErrorCode.NONE
        await asyncio.sleep(11)
        assert coordinator.group().state is GroupState.EMPTY
        assert await coordinator.heartbeat(member) is ErrorCode.UNKNOWN_MEMBER_ID
        assert coordinator.log.records()[-1].value.generation == 2, "an empty generation is recorded"

    play(scene)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"generation_id": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_heartbeat_that_does_not_fit_is_refused(fields: dict[str, object], code: ErrorCode) -> None:
    async def scene(coordinator: Coordinator) -> None:
        member = await coordinator.stable_member()
        assert await coordinator.heartbeat(member, **fields) is code

    play(scene)


def test_heartbeats_count_while_the_group_rebalances() -> None:
    async def scene(coordinator: Coordinator) -> None:
        first = await coordinator.stable_member()
        joining = asyncio.ensure_future(coordinator.new_member())
        for _ in range(8):
            await asyncio.sleep(5)
            assert await coordinator.heartbeat(first) is ErrorCode.REBALANCE_IN_PROGRESS
        assert (await coordinator.join(first.member_id)).generation_id == 2
        await joining

    play(scene)


def test_a_member_that_leaves_makes_room_at_once() -> None:
    async def scene(coordinator: Coordinator) -> None:
        leader, follower = await two_stable(coordinator)
        assert await coordinator.leave(leader.member_id) is ErrorCode.NONE
        assert await coordinator.heartbeat(follower) is ErrorCode.REBALANCE_IN_PROGRESS
        again = await coordinator.join(follower.member_id)
        assert (again.generation_id, again.leader) == (3, follower.member_id)
        assert await coordinator.leave(follower.member_id) is ErrorCode.NONE
        assert coordinator.group().state is GroupState.EMPTY

    play(scene)


def test_several_leave_in_one_request_each_with_an_outcome() -> None:
    async def scene(coordinator: Coordinator) -> None:
        leader, follower = await two_stable(coordinator)
        asked = await coordinator.join()
        codes = await coordinator.leave_all(
            (leader.member_id, None), ("stranger", None), (follower.member_id, None), (asked.member_id, None)
        )
        assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE, ErrorCode.NONE]
        assert coordinator.group().state is GroupState.EMPTY
        assert await coordinator.leave("", "no such instance") is ErrorCode.UNKNOWN_MEMBER_ID

    play(scene)


def test_a_pending_member_that_leaves_does_not_disturb_a_stable_group() -> None:
    async def scene(coordinator: Coordinator) -> None:
        member = await coordinator.stable_member()
        asked = await coordinator.join()
        assert await coordinator.leave(asked.member_id) is ErrorCode.NONE
        assert await coordinator.heartbeat(member) is ErrorCode.NONE

    play(scene)


def test_leaving_a_group_that_does_not_exist() -> None:
    async def scene(coordinator: Coordinator) -> None:
        assert await coordinator.leave("anybody") is ErrorCode.UNKNOWN_MEMBER_ID

    play(scene)


def test_a_large_group_converges_after_a_storm() -> None:
    """Scene 30: two hundred members join at the same time."""

    async def scene(coordinator: Coordinator) -> None:
        async def member() -> int:
            joined = await coordinator.new_member()
            while True:
                plan = {one.member_id: one.member_id.encode() for one in joined.members}
                synced = await coordinator.sync(joined, plan)
                if synced.error_code == ErrorCode.NONE:
                    assert synced.assignment == joined.member_id.encode()
                    return joined.generation_id
                joined = await coordinator.join(joined.member_id)

        generations = await asyncio.gather(*(member() for _ in range(200)))
        assert len(set(generations)) == 1
        assert coordinator.group().state is GroupState.STABLE

    play(scene, group_initial_rebalance_delay_ms=3000)
