"""The coordinators' runtime over a log that lags, refuses, fails and changes hands."""

import asyncio

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.machine import Decision, ProducerIdentity
from ottla.wire.records import batches
from sim.world import World
from tests.unit.coordinator.memory_coordinator import (
    COMMIT_TIMEOUT_SECONDS,
    Coordinator,
    MemoryLog,
    come_true,
    commit_decision,
    play,
)

FAILED = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "no disk")


def test_a_decision_is_written_before_its_caller_goes_on() -> None:
    async def scene(coordinator: Coordinator) -> None:
        assert await coordinator.commit(5) is ErrorCode.NONE
        assert len(coordinator.log.batches) == 1

    play(scene)


def test_who_does_not_learn_any_more_who_leads_tells_nobody_of_what_it_knows() -> None:
    async def scene(coordinator: Coordinator) -> None:
        assert await coordinator.commit(5) is ErrorCode.NONE
        coordinator.is_blind = True
        assert not coordinator.runtime.is_ready(0)
        runtime, nothing = coordinator.runtime, lambda _: Decision(records=(), reply=None)
        for ask in (runtime.submit, runtime.submit_and_wait):
            with pytest.raises(ApiError, match="may lead"):
                await ask(0, nothing)  # type: ignore[arg-type]
        with pytest.raises(ApiError, match="NOT_COORDINATOR"):
            runtime.submit_gathered(0, nothing)
        coordinator.is_blind = False
        assert await coordinator.commit(6) is ErrorCode.NONE

    play(scene)


def test_decisions_behind_a_write_that_waits_share_the_next_batch() -> None:
    async def scene(coordinator: Coordinator) -> None:
        log = coordinator.log
        log.gate = asyncio.Event()
        commits = [asyncio.ensure_future(coordinator.commit(0))]
        await asyncio.sleep(1)
        commits += [asyncio.ensure_future(coordinator.commit(number)) for number in range(1, 5)]
        await asyncio.sleep(1)
        assert not any(commit.done() for commit in commits)
        committed = coordinator.machine.group("g")
        assert committed is not None, "a decision sees what came before it, written or not"
        log.gate.set()
        assert await asyncio.gather(*commits) == [ErrorCode.NONE] * 5
        assert record_counts(log) == [1, 4]

    play(scene)


def test_records_of_a_transaction_have_a_batch_of_their_own() -> None:
    async def scene(coordinator: Coordinator) -> None:
        log = coordinator.log
        log.gate = asyncio.Event()
        commits = [
            asyncio.ensure_future(commit)
            for commit in (
                coordinator.commit(1),
                coordinator.commit_in_transaction(2),
                coordinator.commit_in_transaction(3),
                coordinator.commit_in_transaction(4, ProducerIdentity(8, 0)),
                coordinator.end(is_commit=True),
            )
        ]
        await asyncio.sleep(1)
        log.gate.set()
        await asyncio.gather(*commits)
        headers = [next(batches(memoryview(batch))).header for batch in log.batches]
        by_producer: dict[int, int] = {}
        for header in headers:
            assert header.is_transactional == (header.producer_id >= 0)
            by_producer[header.producer_id] = by_producer.get(header.producer_id, 0) + header.record_count
        assert by_producer == {-1: 1, 7: 3, 8: 1}, "a marker is a record of its producer"

    play(scene)


def test_a_full_disk_refuses_changes_and_still_serves_reads() -> None:
    async def scene(coordinator: Coordinator) -> None:
        await coordinator.commit(5)
        coordinator.log.refusal_reason = FAILED
        assert await coordinator.commit(6) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        committed = await coordinator.committed()
        assert committed is not None and committed.offset == 5

    play(scene)


def test_a_write_that_fails_voids_the_state_and_loads_the_log_again() -> None:
    async def scene(coordinator: Coordinator) -> None:
        await coordinator.commit(5)
        coordinator.log.failure = FAILED
        assert await coordinator.commit(6) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await coordinator.commit(7) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        coordinator.log.failure = None
        await coordinator.loaded()
        committed = await coordinator.committed()
        assert committed is not None and committed.offset == 5
        assert await coordinator.commit(8) is ErrorCode.NONE

    play(scene)


def test_everybody_behind_a_write_that_fails_is_told_so() -> None:
    async def scene(coordinator: Coordinator) -> None:
        log = coordinator.log
        log.gate = asyncio.Event()
        commits = [asyncio.ensure_future(coordinator.commit(number)) for number in range(3)]
        await asyncio.sleep(1)
        log.failure = FAILED
        log.gate.set()
        assert await asyncio.gather(*commits) == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3
        log.failure = None
        await coordinator.loaded()
        assert await coordinator.committed() is None

    play(scene)


def test_a_commit_that_fails_voids_the_state() -> None:
    async def scene(coordinator: Coordinator) -> None:
        coordinator.log.is_committing = False
        committing = asyncio.ensure_future(coordinator.commit(5))
        await asyncio.sleep(1)
        machine = coordinator.machine
        coordinator.log.commit(FAILED)
        assert await committing is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await coordinator.loaded()
        assert coordinator.machine is not machine

    play(scene)


def test_a_log_lost_before_the_commit_is_waited_for_sends_the_client_to_another_coordinator() -> None:
    async def scene(coordinator: Coordinator) -> None:
        coordinator.log.is_committing = False
        coordinator.log.is_lost = True
        assert await coordinator.commit(5) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        with pytest.raises(ApiError) as refused:
            await coordinator.committed()
        assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    play(scene)


def test_a_commit_that_takes_too_long_is_told_so_and_stands() -> None:
    async def scene(coordinator: Coordinator) -> None:
        coordinator.log.is_committing = False
        machine, began_s = coordinator.machine, coordinator.world.clock.monotonic()
        committing = asyncio.ensure_future(coordinator.commit(5))
        assert await committing is ErrorCode.COORDINATOR_NOT_AVAILABLE
        with pytest.raises(ApiError, match="not committed in time"):
            await coordinator.committed()  # Nobody sees it before.
        assert coordinator.world.clock.monotonic() - began_s >= COMMIT_TIMEOUT_SECONDS
        coordinator.log.commit()
        assert coordinator.machine is machine, "the log may commit it yet: nothing is void"
        committed = await coordinator.committed()
        assert committed is not None and committed.offset == 5

    play(scene)


def test_a_marker_is_waited_for_however_long_it_takes() -> None:
    async def scene(coordinator: Coordinator) -> None:
        await coordinator.commit_in_transaction(5)
        coordinator.log.is_committing = False
        ending = asyncio.ensure_future(coordinator.end(is_commit=True))
        await asyncio.sleep(2 * COMMIT_TIMEOUT_SECONDS)
        assert not ending.done()
        coordinator.log.commit()
        await ending

    play(scene)


def test_a_refusal_waits_for_what_it_was_decided_on() -> None:
    """A coordinator that is cut off refused an EndTxn for a state that nobody else ever had: fatal for the client."""

    def refuse(_: object) -> Decision[None]:
        raise ApiError(ErrorCode.INVALID_TXN_STATE, "so says the state")

    async def scene(coordinator: Coordinator) -> None:
        coordinator.log.is_committing = False
        committing = asyncio.ensure_future(coordinator.commit(5))
        await asyncio.sleep(1)
        refused = asyncio.ensure_future(coordinator.runtime.submit(0, refuse))
        await asyncio.sleep(1)
        assert not refused.done()
        coordinator.log.commit(FAILED)
        with pytest.raises(ApiError) as failure:
            await refused
        assert failure.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await committing is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await coordinator.loaded()
        with pytest.raises(ApiError, match="so says the state"):
            await coordinator.runtime.submit(0, refuse)

    play(scene)


def test_a_write_that_outlives_the_leadership_is_read_back_by_the_next_load() -> None:
    async def scene(coordinator: Coordinator) -> None:
        log = coordinator.log
        log.gate = asyncio.Event()
        committing = asyncio.ensure_future(coordinator.commit(5))
        await asyncio.sleep(1)
        coordinator.runtime.resign(0)
        assert await committing is ErrorCode.NOT_COORDINATOR
        log.gate.set()
        await asyncio.sleep(1)
        await coordinator.lead()
        committed = await coordinator.committed()
        assert committed is not None and committed.offset == 5, "not known to be committed is not: not committed"

    play(scene)


def test_a_partition_that_is_not_led_here_has_no_coordinator() -> None:
    async def scene(coordinator: Coordinator) -> None:
        with pytest.raises(ApiError) as refused:
            await coordinator.runtime.submit(1, commit_decision(1))
        assert refused.value.code is ErrorCode.NOT_COORDINATOR
        coordinator.runtime.resign(0)
        assert await coordinator.commit(1) is ErrorCode.NOT_COORDINATOR

    play(scene)


def test_a_log_that_cannot_be_read_is_tried_again() -> None:
    world = World(1)

    async def run() -> None:
        log = MemoryLog()
        log.failure = FAILED
        coordinator = Coordinator(world, log)
        coordinator.runtime.lead(0, log)
        await asyncio.sleep(1)
        assert await coordinator.commit(1) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert len(log.read_offsets) > 3
        log.failure = None
        await coordinator.loaded()
        assert await coordinator.commit(1) is ErrorCode.NONE

    world.run(run())


def test_a_caller_that_goes_away_takes_nothing_back() -> None:
    async def scene(coordinator: Coordinator) -> None:
        coordinator.log.gate = asyncio.Event()
        committing = asyncio.ensure_future(coordinator.commit(5))
        await asyncio.sleep(1)
        committing.cancel()
        await asyncio.sleep(1)
        coordinator.log.gate.set()
        committed = await coordinator.committed()
        assert committed is not None and committed.offset == 5

    play(scene)


def test_too_many_changes_on_their_way_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.coordinator.pending_writes.RECORDS_PENDING_MAX", 3)

    async def scene(coordinator: Coordinator) -> None:
        coordinator.log.gate = asyncio.Event()
        commits = [asyncio.ensure_future(coordinator.commit(number)) for number in range(4)]
        await asyncio.sleep(1)
        coordinator.log.gate.set()
        codes = await asyncio.gather(*commits)
        assert sorted(codes) == [ErrorCode.NONE] * 3 + [ErrorCode.COORDINATOR_NOT_AVAILABLE]

    play(scene)


def test_a_decision_happens_whole_or_not_at_all() -> None:
    async def scene(coordinator: Coordinator) -> None:
        with pytest.raises(ValueError):
            await coordinator.runtime.submit(0, commit_decision(1, leader_epoch=1 << 40))  # No int32.
        assert coordinator.machine.groups() == []
        assert coordinator.log.batches == []

    play(scene)


def test_who_waits_for_others_is_not_answered_by_a_machine_of_the_past() -> None:
    async def scene(coordinator: Coordinator) -> None:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        waiting = asyncio.ensure_future(coordinator.runtime.submit_and_wait(0, lambda machine: Decision((), future)))
        await asyncio.sleep(1)
        future.set_result("an answer")
        coordinator.runtime.resign(0)
        with pytest.raises(ApiError):
            await waiting

    play(scene)


# -- what one turn brings together ---------------------------------------------------------------------------------


def test_commits_of_one_turn_are_written_together_at_its_end() -> None:
    async def scene(coordinator: Coordinator) -> None:
        log = coordinator.log
        waiting = [coordinator.runtime.submit_gathered(0, commit_decision(number))[1] for number in range(5)]
        assert log.batches == [], "written at the end of the turn"
        await asyncio.gather(*map(come_true, waiting))
        assert record_counts(log) == [5]
        committed = await coordinator.committed()
        assert committed is not None and committed.offset == 4

    play(scene)


def test_who_reads_does_not_see_a_commit_before_it_is_written() -> None:
    async def scene(coordinator: Coordinator) -> None:
        coordinator.runtime.submit_gathered(0, commit_decision(5))
        committed = await coordinator.committed()
        assert committed is not None and committed.offset == 5
        assert record_counts(coordinator.log) == [1]

    play(scene)


def test_commits_whose_write_fails_are_void_for_all_of_the_turn() -> None:
    async def scene(coordinator: Coordinator) -> None:
        coordinator.log.failure = FAILED
        waiting = [coordinator.runtime.submit_gathered(0, commit_decision(number))[1] for number in range(3)]
        outcomes = await asyncio.gather(*map(come_true, waiting), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [ApiError] * 3
        coordinator.log.failure = None
        await coordinator.loaded()
        assert await coordinator.committed() is None
        assert await coordinator.commit(7) is ErrorCode.NONE

    play(scene)


def test_commits_gathered_when_the_leadership_ends_are_told_so_and_not_written() -> None:
    async def scene(coordinator: Coordinator) -> None:
        _, waiting = coordinator.runtime.submit_gathered(0, commit_decision(5))
        coordinator.runtime.resign(0)
        with pytest.raises(ApiError) as ended:
            await come_true(waiting)
        assert ended.value.code is ErrorCode.NOT_COORDINATOR
        assert coordinator.log.batches == []

    play(scene)


def test_gathered_commits_wait_for_the_log_to_commit_them() -> None:
    async def scene(coordinator: Coordinator) -> None:
        coordinator.log.is_committing = False
        _, waiting = coordinator.runtime.submit_gathered(0, commit_decision(5))
        await asyncio.sleep(1)
        assert record_counts(coordinator.log) == [1]
        assert not waiting.is_known
        coordinator.log.commit()
        await come_true(waiting)

    play(scene)


@pytest.mark.parametrize("index", [0, 1])
def test_who_hears_that_it_is_committed_may_commit_again_at_once(index: int) -> None:
    """As a connection does that goes on with its next request, for a group whose partition may have its turn yet."""

    async def scene(coordinator: Coordinator) -> None:
        runtime = coordinator.runtime
        runtime.lead(1, MemoryLog())
        await coordinator.loaded()
        outcomes = [runtime.submit_gathered(number, commit_decision(5))[1] for number in (0, 1)]
        outcomes[0].listen(lambda _: outcomes.append(runtime.submit_gathered(index, commit_decision(6))[1]))
        await asyncio.sleep(1)
        assert [outcome.is_known for outcome in outcomes] == [True] * 3

    play(scene)


def test_nobody_is_told_in_the_middle_of_a_resignation() -> None:
    """Whoever hears of it may do anything: what resigns is to be done first."""

    async def scene(coordinator: Coordinator) -> None:
        _, waiting = coordinator.runtime.submit_gathered(0, commit_decision(5))
        coordinator.runtime.resign(0)
        assert not waiting.is_known
        await asyncio.sleep(0)
        assert waiting.is_known

    play(scene)


def record_counts(log: MemoryLog) -> list[int]:
    return [next(batches(memoryview(batch))).header.record_count for batch in log.batches]
