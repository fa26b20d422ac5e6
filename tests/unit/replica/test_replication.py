"""Leaders and followers together: what is copied, when it counts as committed, who is in sync, who takes over."""

import asyncio

import pytest

from ottla.base.errors import ApiError, ErrorCode
from tests.unit.metadata.cluster import broker_record, orders, partition_record
from tests.unit.replica.brokers import LAG_SECONDS, World, play


def test_followers_copy_byte_for_byte_and_then_it_is_committed() -> None:
    async def scene(world: World) -> None:
        for number in range(20):
            await world[1].produce(b"%d" % number, b"x" * number * 100)
        await world.until(lambda: all(world[node].partition().high_watermark == 40 for node in (2, 3)))
        assert world[1].log_bytes() == world[2].log_bytes() == world[3].log_bytes()
        assert world[2].partition().log.epochs.entries() == [(0, 0)]

    play(scene, *orders([1, 2, 3], min_isr=2))


def test_nothing_is_committed_that_an_in_sync_follower_lacks() -> None:
    async def scene(world: World) -> None:
        await world[1].produce(b"both")
        world.cut |= {(3, 1)}
        offset = await world[1].append(b"one of them")
        await world.until(lambda: world[2].partition().log.log_end_offset == 2)
        assert world[1].partition().high_watermark == 1
        committed = world[1].partition().committed(offset)
        assert committed is not None
        await asyncio.sleep(1)
        assert not committed.done()
        world.cut.clear()
        await committed

    play(scene, *orders([1, 2, 3], min_isr=2))


def test_scene_8_a_follower_refuses_what_rots_at_the_leader_and_other_partitions_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scene(world: World) -> None:
        await world[1].produce(b"sound")
        world.cut |= {(2, 1)}
        await world[1].append(b"rotten")
        (segment,) = world[1].partition().log.segments
        last_byte = segment.handle().pread(1, segment.size - 1)
        segment.handle().pwrite(bytes([last_byte[0] ^ 1]), segment.size - 1)
        world.cut.clear()
        await world[1].append(b"elsewhere", number=1)
        await world.until(lambda: world[2].partition(1).log.log_end_offset == 1)
        await asyncio.sleep(1)
        assert world[2].values() == [b"sound"]
        assert world[1].partition().high_watermark == 1, "nobody counts it as committed"
        assert [
            record.message for record in caplog.records if "orders-0 cannot be copied from node 1" in record.message
        ]
        segment.handle().pwrite(last_byte, segment.size - 1)
        await world.until(lambda: world[2].partition().log.log_end_offset == 2)

    play(scene, *orders([1, 2], min_isr=2), partition_record([1, 2], partition_id=1))


def test_who_lags_leaves_the_isr_and_comes_back() -> None:
    async def scene(world: World) -> None:
        await world[1].produce(b"a")
        world.cut |= {(3, 1)}
        started = world.clock.monotonic()
        await world[1].produce(b"b")  # Waits for the ISR to shrink.
        assert LAG_SECONDS <= world.clock.monotonic() - started <= 1.6 * LAG_SECONDS + 1
        assert set(world.state().isr) == {1, 2}
        world.cut.clear()
        await world.until(lambda: set(world.state().isr) == {1, 2, 3})
        assert world[3].values() == [b"a", b"b"]

    play(scene, *orders([1, 2, 3], min_isr=2))


def test_an_idle_partition_keeps_its_isr() -> None:
    async def scene(world: World) -> None:
        await world[1].produce(b"a")
        await asyncio.sleep(10 * LAG_SECONDS)
        assert set(world.state().isr) == {1, 2, 3}
        assert not world.proposals
        await world[1].produce(b"b")
        await asyncio.sleep(LAG_SECONDS)
        assert set(world.state().isr) == {1, 2, 3}

    play(scene, *orders([1, 2, 3], min_isr=2))


def test_below_min_isr_the_watermark_stands_still_and_acks_all_is_refused() -> None:
    async def scene(world: World) -> None:
        await world[1].produce(b"a")
        world.cut |= {(2, 1), (3, 1)}
        offset = await world[1].append(b"b")
        committed = world[1].partition().committed(offset)
        assert committed is not None
        with pytest.raises(ApiError) as refused:
            await committed
        assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert world.state().isr == (1,)
        assert set(world.state().eligible_leader_replicas) == {2, 3}
        partition = world[1].partition()
        assert partition.high_watermark == 1
        assert partition.is_short_of_replicas
        with pytest.raises(ApiError) as before:
            partition.require_replicas()
        assert before.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
        world.cut.clear()
        await world.until(lambda: len(world.state().isr) == 3)
        await world.until(lambda: partition.high_watermark == 2)
        assert not partition.is_short_of_replicas

    play(scene, *orders([1, 2, 3], min_isr=2))


def test_deleted_records_are_deleted_when_every_live_replica_has_done_it() -> None:
    async def scene(world: World) -> None:
        for value in (b"a", b"b", b"c"):
            await world[1].produce(value)
        partition = world[1].partition()
        world.cut |= {(3, 1)}
        await partition.delete_records_before(2)
        with pytest.raises(ApiError) as late:
            await partition.wait_deleted_before(2, 1.0)
        assert late.value.code is ErrorCode.REQUEST_TIMED_OUT
        assert world[2].partition().log.log_start_offset == 2
        world.cut.clear()
        assert await partition.wait_deleted_before(2, 10.0) == 2
        assert world[3].partition().log.log_start_offset == 2
        await world.commit(broker_record(3, fenced=True))
        await partition.delete_records_before(3)
        world.cut |= {(3, 1)}
        assert await partition.wait_deleted_before(3, 10.0) == 3, "nobody waits for a dead one"

    play(scene, *orders([1, 2, 3]))


def test_a_new_leader_goes_on_and_the_old_one_is_cut_back() -> None:
    async def scene(world: World) -> None:
        await world[1].produce(b"committed")
        world.cut |= {(2, 1), (3, 1)}
        offset = await world[1].append(b"never acknowledged")
        committed = world[1].partition().committed(offset)
        assert committed is not None
        world[1].hold()
        await world.elect(2, isr=[2, 3])
        await world[2].produce(b"new")
        assert world[1].values() == [b"committed", b"never acknowledged"]
        await world[1].release()
        with pytest.raises(ApiError) as lost:
            await committed
        assert lost.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        with pytest.raises(ApiError) as refused:
            await world[1].append(b"no more")
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        await world.until(lambda: world[1].values() == [b"committed", b"new"])
        await world.until(lambda: set(world.state().isr) == {1, 2, 3})
        assert world[1].partition().log.epochs.entries() == [(0, 0), (1, 1)]
        assert world[1].log_bytes() == world[2].log_bytes()

    play(scene, *orders([1, 2, 3], min_isr=2))


def test_a_new_leader_never_truncates_and_waits_for_all_in_sync() -> None:
    """What it has beyond its watermark may be committed."""

    async def scene(world: World) -> None:
        await world[1].produce(b"a")
        world.cut |= {(3, 1)}
        await world[1].append(b"b")
        await world.until(lambda: world[2].partition().log.log_end_offset == 2)
        world.cut |= {(3, 2)}
        await world.elect(2, isr=[2, 3])
        new = world[2].partition()
        await asyncio.sleep(1)
        assert new.high_watermark == 1
        assert world[2].values() == [b"a", b"b"]
        world.cut.clear()
        await world.until(lambda: new.high_watermark == 2)
        assert world[3].values() == [b"a", b"b"]

    play(scene, *orders([1, 2, 3], min_isr=2))


def test_leaders_that_wrote_nothing_leave_nothing_behind() -> None:
    async def scene(world: World) -> None:
        await world[1].produce(b"a")
        for leader in (2, 3, 1, 3, 2):
            await world.elect(leader)
        await world[2].produce(b"b")
        await world.until(lambda: all(world[node].values() == [b"a", b"b"] for node in (1, 2, 3)))
        assert world[2].partition().log.epochs.entries() == [(0, 0), (5, 1)]
        await world.until(lambda: world[1].partition().log.epochs.entries() == [(0, 0), (5, 1)])

    play(scene, *orders([1, 2, 3], min_isr=2))


def test_a_follower_whose_metadata_is_ahead_tries_again() -> None:
    async def scene(world: World) -> None:
        await world[1].produce(b"a")
        world[2].hold()
        await world.elect(2)
        await asyncio.sleep(0.5)
        await world[2].release()
        await world[2].produce(b"b")
        assert world[3].values() == [b"a", b"b"]

    play(scene, *orders([1, 2, 3], min_isr=2))


def test_without_a_leader_nothing_is_served() -> None:
    async def scene(world: World) -> None:
        await world[1].produce(b"a")
        await world.elect(-1, isr=[])
        with pytest.raises(ApiError) as refused:
            world[1].partitions.leader_of("orders", 0)
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        fetch_count = len(world[2].fetches)
        await asyncio.sleep(5)
        assert len(world[2].fetches) == fetch_count

    play(scene, *orders([1, 2, 3], min_isr=2))
