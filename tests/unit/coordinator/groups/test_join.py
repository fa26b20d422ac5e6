"""Joining a classic group: the rules of JoinGroup, one by one."""

import asyncio

import pytest

from ottla.base.errors import ErrorCode
from ottla.coordinator.groups.group import GroupState
from tests.unit.coordinator.memory_coordinator import GROUP, Coordinator, play, subscription


def test_a_new_member_is_asked_to_come_back_with_its_id() -> None:
    async def scene(coordinator: Coordinator) -> None:
        first = await coordinator.join()
        assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert first.member_id == "client-1"
        second = await coordinator.join(first.member_id)
        assert (second.error_code, second.member_id, second.leader) == (ErrorCode.NONE, "client-1", "client-1")
        assert second.generation_id == 1
        assert second.protocol_name == "range"
        assert [(member.member_id, member.metadata) for member in second.members] == [("client-1", b"metadata")]

    play(scene)


def test_before_version_4_a_member_joins_at_once() -> None:
    async def scene(coordinator: Coordinator) -> None:
        answer = await coordinator.join(version=3)
        assert (answer.error_code, answer.generation_id) == (ErrorCode.NONE, 1)

    play(scene)


def test_an_id_that_was_not_given_out_is_unknown() -> None:
    async def scene(coordinator: Coordinator) -> None:
        assert (await coordinator.join("made-up")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        await coordinator.stable_member()
        assert (await coordinator.join("made-up")).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    play(scene)


def test_an_id_that_is_not_used_within_the_session_is_forgotten() -> None:
    async def scene(coordinator: Coordinator) -> None:
        answer = await coordinator.join()
        await asyncio.sleep(9)
        assert coordinator.machine.groups()
        await asyncio.sleep(2)
        assert not coordinator.machine.groups(), "nothing is left of a group that nobody joined"
        assert (await coordinator.join(answer.member_id)).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    play(scene)


@pytest.mark.parametrize("session_timeout_ms", [5_999, 1_800_001])
def test_session_time_outs_have_bounds(session_timeout_ms: int) -> None:
    async def scene(coordinator: Coordinator) -> None:
        answer = await coordinator.join(session_timeout_ms=session_timeout_ms)
        assert answer.error_code == ErrorCode.INVALID_SESSION_TIMEOUT

    play(scene)


def test_a_member_without_a_protocol_in_common_stays_outside() -> None:
    async def scene(coordinator: Coordinator) -> None:
        assert (await coordinator.join(protocols={})).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert (await coordinator.join(protocol_type="")).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        await coordinator.stable_member()
        other = await coordinator.join(protocols={"sticky": b""})
        assert other.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        connect = await coordinator.join(protocol_type="connect")
        assert connect.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    play(scene)


def test_a_refused_join_leaves_no_group_behind() -> None:
    async def scene(coordinator: Coordinator) -> None:
        await coordinator.join(protocols={})
        assert coordinator.machine.groups() == []

    play(scene)


def test_the_protocol_is_what_most_members_prefer_of_what_all_support() -> None:
    async def scene(coordinator: Coordinator) -> None:
        offers = [{"a": b"1", "b": b"2"}, {"b": b"3", "a": b"4"}, {"b": b"5", "a": b"6", "c": b""}]
        answers = await asyncio.gather(*(coordinator.new_member(protocols=offer) for offer in offers))
        assert {answer.protocol_name for answer in answers} == {"b"}
        (leader,) = [answer for answer in answers if answer.members]
        assert sorted(member.metadata for member in leader.members) == [b"2", b"3", b"5"]

    play(scene, group_initial_rebalance_delay_ms=1000)


def test_a_new_group_waits_for_members_and_a_little_longer_while_they_come() -> None:
    async def scene(coordinator: Coordinator) -> None:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        first = asyncio.ensure_future(coordinator.new_member())
        await asyncio.sleep(2.5)
        second = asyncio.ensure_future(coordinator.new_member())
        await first
        assert loop.time() - begin == pytest.approx(6, abs=0.1), "3 s, and 3 more because somebody came"
        assert (await second).generation_id == 1

    play(scene, group_initial_rebalance_delay_ms=3000)


def test_the_delay_of_a_new_group_never_exceeds_its_rebalance_time_out() -> None:
    async def scene(coordinator: Coordinator) -> None:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        joining = [asyncio.ensure_future(coordinator.new_member(rebalance_timeout_ms=7_000))]
        for _ in range(8):
            await asyncio.sleep(1)
            if not joining[0].done():
                joining.append(asyncio.ensure_future(coordinator.new_member(rebalance_timeout_ms=7_000)))
        await asyncio.wait(joining, return_when=asyncio.FIRST_COMPLETED)
        await joining[0]
        assert loop.time() - begin < 9

    play(scene, group_initial_rebalance_delay_ms=3000)


def test_a_second_member_makes_the_first_join_again() -> None:
    async def scene(coordinator: Coordinator) -> None:
        first = await coordinator.stable_member()
        joining = asyncio.ensure_future(coordinator.new_member())
        await asyncio.sleep(1)
        assert not joining.done()
        assert coordinator.group().state is GroupState.PREPARING_REBALANCE
        assert await coordinator.heartbeat(first) is ErrorCode.REBALANCE_IN_PROGRESS
        again = await coordinator.join(first.member_id)
        second = await joining
        assert {again.generation_id, second.generation_id} == {2}
        assert second.leader == again.leader == first.member_id
        assert len(again.members) == 2 and not second.members

    play(scene)


def test_who_does_not_join_again_in_time_is_out() -> None:
    async def scene(coordinator: Coordinator) -> None:
        first = await coordinator.stable_member(session_timeout_ms=100_000, rebalance_timeout_ms=20_000)
        second = await coordinator.new_member()
        assert second.generation_id == 2 and second.leader == second.member_id
        assert await coordinator.heartbeat(first) is ErrorCode.UNKNOWN_MEMBER_ID

    play(scene)


def test_a_follower_that_joins_again_unchanged_gets_the_generation_it_has() -> None:
    async def scene(coordinator: Coordinator) -> None:
        leader = await coordinator.stable_member()
        joining = asyncio.ensure_future(coordinator.new_member())
        await asyncio.sleep(1)
        leader = await coordinator.join(leader.member_id)
        follower = await joining
        again = await coordinator.join(follower.member_id)
        assert again.generation_id == 2, "in CompletingRebalance"
        await coordinator.sync(leader, {})
        again = await coordinator.join(follower.member_id)
        assert (again.generation_id, again.members) == (2, [])
        assert coordinator.group().state is GroupState.STABLE

    play(scene)


def test_a_leader_that_joins_again_wants_a_new_assignment() -> None:
    async def scene(coordinator: Coordinator) -> None:
        leader = await coordinator.stable_member()
        again = await coordinator.join(leader.member_id)
        assert again.generation_id == 2

    play(scene)


def test_a_follower_with_new_metadata_begins_a_rebalance() -> None:
    async def scene(coordinator: Coordinator) -> None:
        first = await coordinator.stable_member()
        joining = asyncio.ensure_future(coordinator.new_member())
        await asyncio.sleep(1)
        first, second = await coordinator.join(first.member_id), await joining
        await coordinator.sync(first)
        changing = asyncio.ensure_future(coordinator.join(second.member_id, protocols={"range": b"other"}))
        await asyncio.sleep(1)
        assert await coordinator.heartbeat(first) is ErrorCode.REBALANCE_IN_PROGRESS
        first = await coordinator.join(first.member_id)
        assert (await changing).generation_id == 3
        assert b"other" in [member.metadata for member in first.members]

    play(scene)


def test_a_group_has_a_greatest_size() -> None:
    async def scene(coordinator: Coordinator) -> None:
        joining = [asyncio.ensure_future(coordinator.new_member()) for _ in range(3)]
        answers = await asyncio.gather(*joining)
        codes = sorted(answer.error_code for answer in answers)
        assert codes == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.GROUP_MAX_SIZE_REACHED]
        assert (await coordinator.join()).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED

    play(scene, group_max_size=2, group_initial_rebalance_delay_ms=1000)


def test_an_id_that_is_given_out_holds_up_a_rebalance_until_its_session_ends() -> None:
    async def scene(coordinator: Coordinator) -> None:
        first = await coordinator.stable_member()
        await coordinator.join()  # Somebody who asks for an id and goes away.
        loop = asyncio.get_running_loop()
        begin = loop.time()
        again = await coordinator.join(first.member_id)
        assert again.generation_id == 2
        assert loop.time() - begin == pytest.approx(10, abs=0.1)

    play(scene)


def test_a_client_that_went_away_while_it_joined_leaves_with_its_session() -> None:
    async def scene(coordinator: Coordinator) -> None:
        first = await coordinator.stable_member()
        vanished = asyncio.ensure_future(coordinator.new_member())
        await asyncio.sleep(1)
        vanished.cancel()
        await asyncio.sleep(0)
        second = await coordinator.join(first.member_id)
        assert len(second.members) == 2, "it had joined"
        assert second.leader == first.member_id
        for _ in range(4):
            await asyncio.sleep(3)
            await coordinator.heartbeat(second)
        assert await coordinator.heartbeat(second) is ErrorCode.REBALANCE_IN_PROGRESS
        third = await coordinator.join(first.member_id)
        assert [member.member_id for member in third.members] == [first.member_id]

    play(scene)


def test_nobody_who_went_away_is_made_leader() -> None:
    async def scene(coordinator: Coordinator) -> None:
        vanished = asyncio.ensure_future(coordinator.new_member())
        await asyncio.sleep(0.5)
        vanished.cancel()
        stays = await coordinator.new_member()
        assert stays.leader == stays.member_id
        assert len(stays.members) == 2

    play(scene, group_initial_rebalance_delay_ms=1000)


def test_a_join_that_is_repeated_over_a_new_connection_is_the_same_member() -> None:
    async def scene(coordinator: Coordinator) -> None:
        first = await coordinator.stable_member()
        asked = await coordinator.join()
        lost = asyncio.ensure_future(coordinator.join(asked.member_id))
        await asyncio.sleep(1)
        repeated = asyncio.ensure_future(coordinator.join(asked.member_id))
        await asyncio.sleep(1)
        assert (await lost).error_code == ErrorCode.REBALANCE_IN_PROGRESS, "the older one is let go"
        leader = await coordinator.join(first.member_id)
        assert (await repeated).generation_id == 2
        assert len(leader.members) == 2

    play(scene)


def test_a_first_member_that_leaves_at_once_leaves_an_empty_group() -> None:
    async def scene(coordinator: Coordinator) -> None:
        joining = asyncio.ensure_future(coordinator.new_member(protocols={"range": subscription("t")}))
        await asyncio.sleep(0.5)
        (member_id,) = coordinator.group().members
        assert await coordinator.leave(member_id) is ErrorCode.NONE
        assert (await joining).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert coordinator.group().state is GroupState.EMPTY
        (record,) = coordinator.log.records()
        assert (record.key.group, record.value.generation, record.value.members) == (GROUP, 1, [])

    play(scene, group_initial_rebalance_delay_ms=3000)


def test_a_protocol_named_twice_is_one_voice() -> None:
    async def scene(coordinator: Coordinator) -> None:
        twice = [("range", b"first"), ("sticky", b"s"), ("range", b"second")]
        answer = await coordinator.new_member(protocols=twice)
        assert (answer.error_code, answer.protocol_name) == (ErrorCode.NONE, "range")
        assert [member.metadata for member in answer.members] == [b"first"]

    play(scene)


@pytest.mark.parametrize("field", ["group_instance_id", "protocol_type", "protocols"])
def test_a_name_that_no_record_can_hold_is_refused(field: str) -> None:
    async def scene(coordinator: Coordinator) -> None:
        name = "ß" * 16_001
        answer = await coordinator.join(**{field: {name: b""} if field == "protocols" else name})
        assert answer.error_code == ErrorCode.INVALID_REQUEST

    play(scene)
