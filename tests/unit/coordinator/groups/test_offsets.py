"""Committing offsets, and when they go."""

import asyncio

import pytest

from ottla.base.errors import ErrorCode
from ottla.coordinator.groups.group import GroupState
from ottla.coordinator.machine import Decision, ProducerIdentity
from tests.unit.coordinator.memory_coordinator import GROUP, TOPIC, Coordinator, play, subscription

DAY_SECONDS = 24 * 3600


async def delete_offsets(coordinator: Coordinator, topic: str = TOPIC) -> ErrorCode:
    (code,) = await coordinator.runtime.submit(0, lambda machine: machine.decide_delete_offsets(GROUP, [(topic, 0)]))
    return code


async def delete_group(coordinator: Coordinator) -> ErrorCode:
    return await coordinator.runtime.submit(0, lambda machine: machine.decide_delete(GROUP))


@pytest.mark.parametrize(("late_seconds", "code"), [(0, ErrorCode.NONE), (60, ErrorCode.NON_EMPTY_GROUP)])
def test_a_group_is_deleted_the_moment_its_last_session_ends(late_seconds: int, code: ErrorCode) -> None:
    """Before the timer says so, too; but who stood still has not heard what its members sent meanwhile."""

    async def scene(coordinator: Coordinator) -> None:
        await coordinator.stable_member()
        await asyncio.sleep(9)
        coordinator.world.clock.advance(1 + late_seconds)
        coordinator.runtime.submit_gathered(0, lambda machine: machine.decide_overdue(GROUP))
        assert await delete_group(coordinator) is code

    play(scene)


def test_somebody_who_only_commits_has_an_empty_group_without_a_protocol() -> None:
    async def scene(coordinator: Coordinator) -> None:
        assert await coordinator.commit(5, metadata="note", leader_epoch=3) is ErrorCode.NONE
        committed = await coordinator.committed()
        assert committed is not None
        assert (committed.offset, committed.leader_epoch, committed.metadata) == (5, 3, "note")
        group = coordinator.group()
        assert (group.state, group.protocol_type) == (GroupState.EMPTY, None)
        (record,) = coordinator.log.records()
        assert (record.key.group, record.key.topic, record.key.partition) == (GROUP, TOPIC, 0)
        assert (record.value_version, record.value.offset, record.value.metadata) == (4, 5, "note")

    play(scene)


def test_a_named_retention_time_is_recorded_in_the_version_that_has_the_field() -> None:
    async def scene(coordinator: Coordinator) -> None:
        await coordinator.commit(5, retention_ms=60_000, version=4)
        (record,) = coordinator.log.records()
        assert record.value_version == 1
        assert record.value.expire_timestamp - record.value.commit_timestamp == 60_000

    play(scene)


def test_a_member_commits_and_stays_alive_by_it() -> None:
    async def scene(coordinator: Coordinator) -> None:
        member = await coordinator.stable_member()
        for offset in range(5):
            await asyncio.sleep(8)
            assert await coordinator.commit(offset, member) is ErrorCode.NONE

    play(scene)


@pytest.mark.parametrize(
    ("fields", "version", "code"),
    [
        ({"member_id": "stranger", "generation": 1}, 9, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "", "generation": -1}, 9, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation": 0}, 9, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": 7}, 9, ErrorCode.ILLEGAL_GENERATION),
        ({"group_id": "other"}, 9, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"group_id": "other"}, 8, ErrorCode.ILLEGAL_GENERATION),
        ({"metadata": "x" * 4097}, 9, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ({"metadata": "x" * 4096}, 9, ErrorCode.NONE),
    ],
)
def test_who_may_commit_what(fields: dict[str, object], version: int, code: ErrorCode) -> None:
    async def scene(coordinator: Coordinator) -> None:
        member = await coordinator.stable_member()
        assert await coordinator.commit(1, member, version=version, **fields) is code

    play(scene)


def test_a_commit_before_the_assignment_is_told_to_wait() -> None:
    async def scene(coordinator: Coordinator) -> None:
        member = await coordinator.new_member()
        assert await coordinator.commit(1, member) is ErrorCode.REBALANCE_IN_PROGRESS
        assert await coordinator.commit_in_transaction(1, member_id=member.member_id, generation_id=1) is ErrorCode.NONE

    play(scene)


def test_a_commit_is_taken_while_others_join() -> None:
    """An eager consumer commits what it has read before it joins again."""

    async def scene(coordinator: Coordinator) -> None:
        member = await coordinator.stable_member()
        joining = asyncio.ensure_future(coordinator.new_member())
        await asyncio.sleep(1)
        assert await coordinator.commit(4, member) is ErrorCode.NONE
        joining.cancel()

    play(scene)


# -- transactions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_commit", [True, False])
def test_offsets_of_a_transaction_count_once_it_commits(is_commit: bool) -> None:
    async def scene(coordinator: Coordinator) -> None:
        await coordinator.commit(1)
        assert await coordinator.commit_in_transaction(9) is ErrorCode.NONE
        committed = await coordinator.committed()
        assert committed is not None and committed.offset == 1
        assert coordinator.machine.is_offset_pending(coordinator.group(), TOPIC, 0)
        await coordinator.end(is_commit=is_commit)
        committed = await coordinator.committed()
        assert committed is not None and committed.offset == (9 if is_commit else 1)
        assert not coordinator.machine.is_offset_pending(coordinator.group(), TOPIC, 0)

    play(scene)


def test_in_a_transaction_a_group_has_a_name() -> None:
    async def scene(coordinator: Coordinator) -> None:
        assert await coordinator.commit_in_transaction(9, group_id="") is ErrorCode.INVALID_GROUP_ID

    play(scene)


def test_of_a_transactions_commit_and_a_later_one_the_later_counts() -> None:
    async def scene(coordinator: Coordinator) -> None:
        await coordinator.commit_in_transaction(9)
        await coordinator.commit(3)
        await coordinator.end(is_commit=True)
        committed = await coordinator.committed()
        assert committed is not None and committed.offset == 3

    play(scene)


def test_pending_offsets_of_two_producers_are_kept_apart() -> None:
    async def scene(coordinator: Coordinator) -> None:
        other = ProducerIdentity(8, 2)
        await coordinator.commit_in_transaction(1)
        await coordinator.commit_in_transaction(2, other)
        await coordinator.end(is_commit=False)
        assert coordinator.machine.is_offset_pending(coordinator.group(), TOPIC, 0)
        await coordinator.end(is_commit=True, producer=other)
        committed = await coordinator.committed()
        assert committed is not None and committed.offset == 2

    play(scene)


def test_an_aborted_transaction_leaves_no_group_of_its_own() -> None:
    async def scene(coordinator: Coordinator) -> None:
        await coordinator.commit_in_transaction(1)
        await coordinator.end(is_commit=False)
        assert coordinator.machine.groups() == []

    play(scene)


def test_a_producer_commits_for_a_member_or_for_nobody_in_particular() -> None:
    async def scene(coordinator: Coordinator) -> None:
        assert await coordinator.commit_in_transaction(1, generation_id=3) is ErrorCode.ILLEGAL_GENERATION
        member = await coordinator.stable_member()
        named = {"member_id": member.member_id, "generation_id": 1}
        assert await coordinator.commit_in_transaction(1, **named) is ErrorCode.NONE
        assert await coordinator.commit_in_transaction(1) is ErrorCode.NONE, "as before KIP-447"
        stale = named | {"generation_id": 0}
        assert await coordinator.commit_in_transaction(1, **stale) is ErrorCode.ILLEGAL_GENERATION
        stranger = named | {"member_id": "stranger"}
        assert await coordinator.commit_in_transaction(1, **stranger) is ErrorCode.UNKNOWN_MEMBER_ID
        large = await coordinator.commit_in_transaction(1, metadata="x" * 5000, **named)
        assert large is ErrorCode.OFFSET_METADATA_TOO_LARGE

    play(scene)


def test_an_older_epoch_of_a_producer_cannot_commit() -> None:
    async def scene(coordinator: Coordinator) -> None:
        coordinator.log.fenced_epochs[7] = 1
        assert await coordinator.commit_in_transaction(1) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert coordinator.log.batches == []

    play(scene)


# -- forgetting ----------------------------------------------------------------------------------------------------


def test_offsets_of_a_simple_group_expire_a_week_after_their_commit() -> None:
    async def scene(coordinator: Coordinator) -> None:
        await coordinator.commit(5)
        await asyncio.sleep(6.9 * DAY_SECONDS)
        assert await coordinator.committed() is not None
        await asyncio.sleep(0.2 * DAY_SECONDS)
        assert await coordinator.committed() is None
        assert coordinator.machine.groups() == [], "the group goes with its last offset"
        tombstones = [record.key for record in coordinator.log.records() if record.value is None]
        assert [type(key).__name__ for key in tombstones] == ["OffsetCommitKey", "GroupMetadataKey"]

    play(scene)


def test_offsets_of_a_group_expire_a_week_after_its_last_member_went() -> None:
    async def scene(coordinator: Coordinator) -> None:
        member = await coordinator.stable_member(session_timeout_ms=1_800_000)
        await coordinator.commit(5, member)
        for _ in range(100):
            await asyncio.sleep(1_700)  # Two more days alive.
            assert await coordinator.heartbeat(member) is ErrorCode.NONE
        await coordinator.leave(member.member_id)
        await asyncio.sleep(6.9 * DAY_SECONDS)
        assert await coordinator.committed() is not None
        await asyncio.sleep(0.2 * DAY_SECONDS)
        assert await coordinator.committed() is None

    play(scene)


def test_offsets_with_a_time_of_their_own_expire_by_it() -> None:
    async def scene(coordinator: Coordinator) -> None:
        await coordinator.commit(5, retention_ms=3_600_000, version=4)
        await asyncio.sleep(3_500)
        assert await coordinator.committed() is not None
        await asyncio.sleep(900)
        assert await coordinator.committed() is None

    play(scene)


def test_a_living_group_keeps_the_offsets_of_what_it_reads_and_loses_others() -> None:
    async def scene(coordinator: Coordinator) -> None:
        member = await coordinator.stable_member(session_timeout_ms=1_800_000, protocols={"range": subscription(TOPIC)})
        await coordinator.commit(5, member)
        await coordinator.commit(6, member, topic="left")
        for _ in range(5):
            await asyncio.sleep(1_500)
            assert await coordinator.heartbeat(member) is ErrorCode.NONE
        assert await coordinator.committed() is not None
        assert await coordinator.committed(topic="left") is None

    play(scene, offsets_retention_minutes=60)


def test_an_offset_that_a_transaction_is_about_to_change_does_not_expire() -> None:
    async def scene(coordinator: Coordinator) -> None:
        await coordinator.commit(5)
        await coordinator.commit_in_transaction(6)
        await asyncio.sleep(8 * DAY_SECONDS)
        assert await coordinator.committed() is not None

    play(scene)


def test_many_expired_offsets_go_in_several_decisions() -> None:
    async def scene(coordinator: Coordinator) -> None:
        for number in range(1_500):
            await coordinator.commit(1, group_id=f"group-{number}")
        await asyncio.sleep(7.1 * DAY_SECONDS)
        assert coordinator.machine.groups() == []

    play(scene)


def test_a_deleted_topic_takes_its_offsets_along() -> None:
    async def scene(coordinator: Coordinator) -> None:
        await coordinator.commit(5)
        await coordinator.commit(6, topic="other")
        await coordinator.commit_in_transaction(7)
        coordinator.machine.on_topic_deleted(TOPIC)
        await asyncio.sleep(1)
        await coordinator.end(is_commit=True)
        assert await coordinator.committed() is None
        assert await coordinator.committed(topic="other") is not None

    play(scene)


def test_offsets_are_deleted_on_request_unless_they_are_in_use() -> None:
    async def scene(coordinator: Coordinator) -> None:
        member = await coordinator.stable_member(protocols={"range": subscription(TOPIC)})
        await coordinator.commit(5, member)
        await coordinator.commit(6, member, topic="left")
        assert await delete_offsets(coordinator) is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        assert await delete_offsets(coordinator, "left") is ErrorCode.NONE
        assert await coordinator.committed(topic="left") is None
        await coordinator.leave(member.member_id)
        assert await delete_offsets(coordinator) is ErrorCode.NONE
        assert await coordinator.committed() is None
        assert await delete_offsets(coordinator, "never") is ErrorCode.NONE

    play(scene)


def test_offsets_of_a_group_whose_protocol_is_not_ours_to_read_are_kept() -> None:
    async def scene(coordinator: Coordinator) -> None:
        member = await coordinator.stable_member(protocol_type="connect")
        await coordinator.commit(5, member)
        try:
            await delete_offsets(coordinator)
        except Exception as error:
            assert getattr(error, "code", None) is ErrorCode.NON_EMPTY_GROUP
        else:
            raise AssertionError("it has members")

    play(scene)


def test_a_subscription_that_cannot_be_read_protects_every_topic() -> None:
    async def scene(coordinator: Coordinator) -> None:
        member = await coordinator.stable_member(protocols={"range": b"\x00"})
        await coordinator.commit(5, member)
        assert await delete_offsets(coordinator) is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC

    play(scene)


def test_a_group_is_deleted_when_it_is_empty() -> None:
    async def scene(coordinator: Coordinator) -> None:
        assert await delete_group(coordinator) is ErrorCode.GROUP_ID_NOT_FOUND
        member = await coordinator.stable_member()
        await coordinator.commit(5, member)
        assert await delete_group(coordinator) is ErrorCode.NON_EMPTY_GROUP
        await coordinator.leave(member.member_id)
        assert await delete_group(coordinator) is ErrorCode.NONE
        assert coordinator.machine.groups() == []
        await coordinator.reload()
        assert coordinator.machine.groups() == []

    play(scene)


def test_reading_what_is_not_committed_yet_waits() -> None:
    async def scene(coordinator: Coordinator) -> None:
        coordinator.log.is_committing = False
        committing = asyncio.ensure_future(coordinator.commit(5))
        await asyncio.sleep(0.1)
        reading = asyncio.ensure_future(
            coordinator.runtime.submit(0, lambda machine: Decision((), len(machine.groups())))
        )
        await asyncio.sleep(1)
        assert not committing.done() and not reading.done()
        coordinator.log.commit()
        assert await committing is ErrorCode.NONE
        assert await reading == 1

    play(scene)
