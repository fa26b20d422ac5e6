"""The coordinators' runtime over a log that lags, refuses, fails and changes hands."""

import asyncio

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.machine import Decision, ProducerIdentity
from ottla.wire.records import batches
from sim.world import World
from tests.unit.coordinator.memory_coordinator import Coordinator, MemoryLog, commit_request, play

FAILED = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "no disk")


def test_a_decision_is_written_before_its_caller_goes_on() -> None:
    async def scene(coordinator: Coordinator) -> None:
        assert await coordinator.commit(5) is ErrorCode.NONE
        assert len(coordinator.log.batches) == 1

    play(scene)


def test_decisions_behind_a_write_that_waits_share_the_next_batch() -> None:
    async def scene(coordinator: Coordinator) -> None:
        log = coordinator.log
        log.gate = asyncio.Event()
        commits = [asyncio.ensure_future(coordinator.commit(number)) for number in range(5)]
        await asyncio.sleep(1)
        assert not any(commit.done() for commit in commits)
        committed = coordinator.machine.group("g")
        assert committed is not None, "a decision sees what came before it, written or not"
        log.gate.set()
        assert await asyncio.gather(*commits) == [ErrorCode.NONE] * 5
        assert [next(batches(memoryview(batch))).header.record_count for batch in log.batches] == [1, 4]

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
        request = commit_request(1)
        with pytest.raises(ApiError) as refused:
            await coordinator.runtime.submit(1, lambda machine: machine.decide_commit(request, version=9))
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
        assert log.read_count > 3
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
        request = commit_request(1)
        request.topics[0].partitions[0].committed_leader_epoch = 1 << 40  # No int32.
        with pytest.raises(ValueError):
            await coordinator.runtime.submit(0, lambda machine: machine.decide_commit(request, version=9))
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
