"""A coordinator's partition at a broker that leads it, and at one that follows: over real partitions of three brokers."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.coordinator_log import FollowedCoordinatorLog, LedCoordinatorLog
from ottla.coordinator.machine import ReplayedLog
from ottla.log.file_names import LOG
from ottla.wire import api
from ottla.wire.records import batches, records_of
from tests.unit.metadata.cluster import orders
from tests.unit.replica.brokers import TOPIC, World, play


async def values(log: ReplayedLog) -> list[bytes | None]:
    found: list[bytes | None] = []
    offset = log.start_offset
    while data := await log.read(offset):
        for batch in batches(memoryview(data), stop_at_partial=True):
            found += [record.value for record in records_of(batch.view)]
            offset = batch.header.next_offset
    assert offset == log.end_offset
    return found


def followed(world: World, node_id: int) -> tuple[FollowedCoordinatorLog, list[tuple[int, int]]]:
    """The log, and its start and end whenever it was told of a change."""
    log = FollowedCoordinatorLog(world[node_id].partition(), world.workers)
    told: list[tuple[int, int]] = []
    log.watch(lambda: told.append((log.start_offset, log.end_offset)))
    return log, told


def with_a_record_that_only_two_have(then: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    async def scene(world: World) -> None:
        await world[1].produce(b"committed")
        await world.until(lambda: world[2].partition().high_watermark == 1)
        world.cut |= {(3, 1)}
        await world[1].append(b"not yet")
        await world.until(lambda: world[2].partition().log.log_end_offset == 2)
        await then(world)

    play(scene, *orders([1, 2, 3]))


def test_who_follows_sees_what_is_committed_and_who_leads_all() -> None:
    async def scene(world: World) -> None:
        log, _ = followed(world, 2)
        assert await values(log) == [b"committed"]
        await world.elect(2)
        assert await values(LedCoordinatorLog(world[2].partition(), world.workers)) == [b"committed", b"not yet"]

    with_a_record_that_only_two_have(scene)


def test_who_watches_is_told_what_is_committed() -> None:
    async def scene(world: World) -> None:
        log, told = followed(world, 2)
        assert told == []
        world.cut.clear()
        await world.until(lambda: (0, 2) in told)
        assert await values(log) == [b"committed", b"not yet"]
        log.watch(None)
        told.clear()
        await world[1].produce(b"more")
        await world.until(lambda: log.end_offset == 3)
        assert told == []

    with_a_record_that_only_two_have(scene)


def test_what_is_cut_off_above_the_watermark_was_never_shown() -> None:
    async def scene(world: World) -> None:
        _, told = followed(world, 2)
        await world.elect(3, isr=[2, 3])
        await world[3].produce(b"instead")
        await world.until(lambda: world[2].values() == [b"committed", b"instead"])
        assert told and all(end >= 1 for _, end in told)

    with_a_record_that_only_two_have(scene)


def test_committed_records_that_an_unclean_election_takes_away_are_told_of_at_once() -> None:
    async def scene(world: World) -> None:
        world.cut |= {(3, 1)}
        await world.elect(1, isr=[1, 2])
        await world[1].produce(b"a")
        await world[1].produce(b"b")
        log, told = followed(world, 2)
        await world.until(lambda: log.end_offset == 2)
        told.clear()
        await world.elect(3, isr=[3])
        for value in (b"c", b"d", b"e"):  # More than there was: by its end alone nobody would know.
            await world[3].produce(value)
        world.cut.clear()
        await world.until(lambda: log.end_offset == 3)
        assert (0, 0) in told
        assert await values(log) == [b"c", b"d", b"e"]

    play(scene, *orders([1, 2, 3]))


@pytest.mark.parametrize("kind", [LedCoordinatorLog, FollowedCoordinatorLog])
def test_a_partition_whose_files_are_gone_cannot_be_read(
    kind: type[LedCoordinatorLog | FollowedCoordinatorLog],
) -> None:
    async def scene(world: World) -> None:
        partition = world[1].partition()
        segment = partition.log.active_segment
        segment.forget_handle()
        world[1].disk.remove(segment.path(LOG))
        with pytest.raises(ApiError) as failed:
            await kind(partition, world.workers).read(0)
        assert failed.value.code is ErrorCode.KAFKA_STORAGE_ERROR

    with_a_record_that_only_two_have(scene)


def test_who_waits_for_replicas_too_long_is_told_so() -> None:
    async def scene(world: World) -> None:
        log = LedCoordinatorLog(world[1].partition(), world.workers)
        committed = log.committed(log.end_offset - 1, 0.5)
        assert committed is not None
        with pytest.raises(ApiError) as late:
            await committed
        assert late.value.code is ErrorCode.REQUEST_TIMED_OUT

    with_a_record_that_only_two_have(scene)


def test_in_another_epoch_a_leader_writes_nothing_of_the_last() -> None:
    async def scene(world: World) -> None:
        partition = world[1].partition()
        log = LedCoordinatorLog(partition, world.workers)
        assert log.is_of(partition)
        await world.elect(2)
        assert not log.is_of(partition)
        assert FollowedCoordinatorLog(partition, world.workers).is_of(partition)
        await world.elect(1)
        assert not log.is_of(partition)
        assert log.refusal() is not None
        with pytest.raises(ApiError):
            log.begin_append(memoryview(b""))

    play(scene, *orders([1, 2, 3]))


def test_with_too_few_replicas_nothing_is_decided_that_could_not_be_written() -> None:
    async def scene(world: World) -> None:
        await world.commit(
            api.ConfigRecord(resource_type=2, resource_name=TOPIC, name="min.insync.replicas", value="2")
        )
        log = LedCoordinatorLog(world[1].partition(), world.workers)
        assert log.refusal() is None
        world.cut |= {(2, 1), (3, 1)}
        await world.change(isr=(1,))
        refusal = log.refusal()
        assert refusal is not None and refusal.code is ErrorCode.NOT_ENOUGH_REPLICAS

    play(scene, *orders([1, 2, 3]))
