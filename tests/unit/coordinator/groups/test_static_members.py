"""Static membership (KIP-345, KIP-814): a restart is no rebalance, a duplicate is fenced."""

import asyncio

from ottla.base.errors import ErrorCode
from ottla.coordinator.groups.group import GroupState
from tests.unit.coordinator.memory_coordinator import Coordinator, play


def test_a_static_member_joins_without_the_handshake() -> None:
    async def scene(coordinator: Coordinator) -> None:
        joined = await coordinator.join(group_instance_id="one")
        assert (joined.error_code, joined.member_id) == (ErrorCode.NONE, "one-1")

    play(scene)


def test_a_static_member_that_restarts_keeps_its_assignment_without_a_rebalance() -> None:
    async def scene(coordinator: Coordinator) -> None:
        await coordinator.stable_member(group_instance_id="one")
        again = await coordinator.join(group_instance_id="one")
        assert (again.error_code, again.member_id, again.generation_id) == (ErrorCode.NONE, "one-2", 1)
        assert again.skip_assignment and again.leader == "one-2" and len(again.members) == 1
        synced = await coordinator.sync(again, group_instance_id="one")
        assert synced.assignment == b"all"
        assert coordinator.group().state is GroupState.STABLE
        recorded = coordinator.log.records()[-1].value
        assert (recorded.generation, recorded.leader) == (1, "one-2")
        assert [(one.member_id, one.assignment) for one in recorded.members] == [("one-2", b"all")]

    play(scene)


def test_before_version_9_a_restarted_leader_does_not_learn_that_it_leads() -> None:
    async def scene(coordinator: Coordinator) -> None:
        await coordinator.stable_member(group_instance_id="one")
        again = await coordinator.join(group_instance_id="one", version=8)
        assert (again.leader, again.members, again.skip_assignment) == ("one-1", [], False)

    play(scene)


def test_whoever_goes_by_the_old_id_is_fenced() -> None:
    async def scene(coordinator: Coordinator) -> None:
        old = await coordinator.stable_member(group_instance_id="one")
        await coordinator.join(group_instance_id="one")
        fenced = ErrorCode.FENCED_INSTANCE_ID
        assert await coordinator.heartbeat(old, group_instance_id="one") is fenced
        assert (await coordinator.sync(old, group_instance_id="one")).error_code == fenced
        assert (await coordinator.join(old.member_id, group_instance_id="one")).error_code == fenced
        assert await coordinator.commit(1, old, instance_id="one") is fenced
        assert await coordinator.leave(old.member_id, "one") is fenced
        in_transaction = await coordinator.commit_in_transaction(
            1, member_id=old.member_id, generation_id=1, group_instance_id="one"
        )
        assert in_transaction is fenced

    play(scene)


def test_a_duplicate_fences_the_one_that_waits_in_its_join() -> None:
    async def scene(coordinator: Coordinator) -> None:
        waiting = asyncio.ensure_future(coordinator.join(group_instance_id="one"))
        await asyncio.sleep(1)
        duplicate = asyncio.ensure_future(coordinator.join(group_instance_id="one"))
        assert (await waiting).error_code == ErrorCode.FENCED_INSTANCE_ID
        assert (await duplicate).member_id == "one-2"

    play(scene, group_initial_rebalance_delay_ms=3000)


def test_a_restart_in_the_middle_of_a_rebalance_begins_another() -> None:
    async def scene(coordinator: Coordinator) -> None:
        await coordinator.join(group_instance_id="one")
        assert coordinator.group().state is GroupState.COMPLETING_REBALANCE
        again = await coordinator.join(group_instance_id="one")
        assert again.generation_id == 2
        assert (await coordinator.sync(again, {"one-2": b"x"}, group_instance_id="one")).assignment == b"x"

    play(scene)


def test_a_restart_with_another_protocol_begins_a_rebalance() -> None:
    async def scene(coordinator: Coordinator) -> None:
        await coordinator.stable_member(group_instance_id="one", protocols={"a": b"", "b": b""})
        again = await coordinator.join(group_instance_id="one", protocols={"b": b""})
        assert (again.generation_id, again.protocol_name) == (2, "b")

    play(scene)


def test_an_administrator_removes_a_static_member_by_its_instance() -> None:
    async def scene(coordinator: Coordinator) -> None:
        await coordinator.stable_member(group_instance_id="one")
        assert await coordinator.leave("", "one") is ErrorCode.NONE
        assert coordinator.group().state is GroupState.EMPTY

    play(scene)


def test_a_static_member_that_is_away_holds_its_place_until_its_session_ends() -> None:
    async def scene(coordinator: Coordinator) -> None:
        await coordinator.stable_member(group_instance_id="away", session_timeout_ms=30_000, rebalance_timeout_ms=5_000)
        joined = await coordinator.new_member(rebalance_timeout_ms=5_000)
        assert joined.generation_id == 2 and len(joined.members) == 2, "it may still come back"
        await coordinator.sync(joined)
        while await coordinator.heartbeat(joined) is ErrorCode.NONE:
            await asyncio.sleep(3)
        again = await coordinator.join(joined.member_id)
        assert [one.member_id for one in again.members] == [joined.member_id]

    play(scene)


def test_a_rolling_restart_of_static_members_is_not_one_rebalance() -> None:
    """Scene 28."""

    async def scene(coordinator: Coordinator) -> None:
        names = [f"node-{number}" for number in range(5)]
        answers = await asyncio.gather(*(coordinator.join(group_instance_id=name) for name in names))
        plan = {answer.member_id: answer.member_id.encode() for answer in answers}
        assigned = await asyncio.gather(
            *(
                coordinator.sync(answer, plan, group_instance_id=name)
                for name, answer in zip(names, answers, strict=True)
            )
        )
        for name, before in zip(names, assigned, strict=True):
            again = await coordinator.join(group_instance_id=name)
            assert again.generation_id == 1
            assert (await coordinator.sync(again, group_instance_id=name)).assignment == before.assignment
        assert coordinator.group().generation == 1

    play(scene, group_initial_rebalance_delay_ms=3000)
