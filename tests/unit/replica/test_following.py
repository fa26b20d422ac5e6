"""A follower's log: where it starts, how it is cut back, what its disk does to it, and what it asks for."""

import asyncio
import errno
from typing import Any

import pytest

from ottla.base.errors import ApiError
from ottla.base.types import TopicPartition
from ottla.log.checkpoints import OffsetCheckpoint, read_offsets
from ottla.log.segment import Segment
from ottla.wire import api
from ottla.wire.records import ControlType, end_transaction_marker
from sim.disk_nodes import Kept
from tests.unit.metadata.cluster import orders, partition_record, topic_records
from tests.unit.replica.brokers import SETTINGS, TOPIC, World, play


def config(name: str, value: str) -> api.ConfigRecord:
    return api.ConfigRecord(resource_type=2, resource_name=TOPIC, name=name, value=value)


# -- truncation -------------------------------------------------------------------------------------------------------


def test_histories_that_forked_twice_are_joined_by_epochs() -> None:
    """Each of two leaders wrote something that the other never saw (KIP-279)."""

    async def scene(world: World) -> None:
        await world[1].produce(b"all")
        world.cut |= {(2, 1), (3, 1), (1, 2), (3, 2)}
        await world[1].append(b"1 in epoch 0")
        await world.elect(2, isr=[2])
        await world[2].append(b"2 in epoch 1", b"more of 2")
        await world.elect(1, isr=[1])
        await world[1].append(b"1 in epoch 2", b"more of 1")
        world.cut.clear()
        await world.until(lambda: world[2].log_bytes() == world[1].log_bytes() == world[3].log_bytes())
        assert world[2].values() == [b"all", b"1 in epoch 0", b"1 in epoch 2", b"more of 1"]
        assert world[2].partition().log.epochs.entries() == [(0, 0), (2, 2)]

    play(scene, *orders([1, 2, 3]))


def test_an_unclean_leader_is_followed_though_it_lacks_committed_records(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(world: World) -> None:
        world.cut |= {(3, 1)}
        await world.elect(1, isr=[1, 2])
        await world[1].produce(b"a")
        await world[1].produce(b"b")
        await world.until(lambda: world[2].partition().high_watermark == 2)
        await world.elect(3, isr=[3])
        world.cut.clear()
        await world[3].produce(b"c")
        await world.until(lambda: world[1].values() == world[2].values() == [b"c"])
        await world.until(lambda: world[1].partition().high_watermark == 1)
        storages = [world[one].partition().storage for one in (1, 2, 3)]
        assert [one.lost_record_count for one in storages] == [2, 2, 0]
        assert [one.cut_record_count for one in storages] == [2, 2, 0]
        assert "2 committed records from 0 on are lost, by an unclean election before leader epoch 2" in caplog.text

    play(scene, *orders([1, 2, 3]))


def test_readers_and_roles_wait_while_a_log_is_cut_back() -> None:
    async def scene(world: World) -> None:
        await world[1].produce(b"a")
        world.cut |= {(2, 1), (3, 1), (1, 2), (1, 3)}
        await world[1].append(b"b")
        await world.elect(2, isr=[2, 3])
        await world[2].produce(b"c")
        cut_back = world[1].partition()
        world.workers.latency_seconds_max = 1.0
        world.cut.clear()
        await world.until(lambda: cut_back._truncation is not None)
        with pytest.raises(ApiError):
            await cut_back.read(0, 1000, min_one_batch=True)
        await world.elect(1)  # Waits: the invariant in `follow_image` would say so.
        assert cut_back.log.log_end_offset == 1
        assert cut_back.is_leading

    play(scene, *orders([1, 2, 3]))


# -- log start --------------------------------------------------------------------------------------------------------


def test_the_log_start_follows_the_leaders() -> None:
    async def scene(world: World) -> None:
        for _ in range(3):
            await world[1].produce(b"x")
        await world[1].partition().delete_records_before(2)
        await world.until(lambda: world[2].partition().log.log_start_offset == 2)
        follower = world[1].partition().follower(2)
        await world.until(lambda: follower is not None and follower.log_start_offset == 2)

    play(scene, *orders([1, 2, 3]))


@pytest.mark.parametrize("start", [4, 5])
def test_a_follower_that_is_too_far_behind_starts_over(start: int) -> None:
    """Also where the leader's log starts inside a batch."""

    async def scene(world: World) -> None:
        await world[1].produce(b"early")
        world.cut |= {(3, 1)}
        await world.elect(1, isr=[1, 2])
        await world[1].produce(b"1", b"2")
        await world[1].partition().delete_records_before(3)
        await world[1].produce(b"3")
        await world[1].produce(b"4", b"5", b"6")
        await world[1].partition().delete_records_before(start)
        world.cut.clear()
        await world.until(lambda: len(world.state().isr) == 3)
        log = world[3].partition().log
        assert world[3].values() == [b"4", b"5", b"6"]
        assert (log.log_start_offset, log.log_end_offset) == (start, 7)
        assert world[3].partition().high_watermark == 7

    play(scene, *orders([1, 2, 3]))


@pytest.mark.parametrize("fully", [False, True])
def test_what_comes_after_a_cut_was_never_cleaned(fully: bool) -> None:
    async def scene(world: World) -> None:
        for value in (b"a", b"b", b"c", b"d"):
            await world[1].produce(value)
        await world.until(lambda: world[3].partition().log.log_end_offset == 4)
        partition, place = world[3].partition(), TopicPartition(TOPIC, 0)
        directory = partition.storage.directory
        await partition.note_cleaned(3, cut_record_count=0)
        world.cut |= {(3, 1)}
        await partition.truncate(1, partition.leader_epoch, fully=fully)
        assert read_offsets(world[3].disk, directory.path, OffsetCheckpoint.CLEANER) == {place: 1}
        await partition.note_cleaned(2, cut_record_count=0)
        assert directory.cleaned_ends == {place: 1}, "a pass from before the cut says nothing about the log of now"
        await partition.note_cleaned(2, cut_record_count=3)
        assert directory.cleaned_ends == {place: 2}

    play(scene, *orders([1, 2, 3]))


# -- disks ------------------------------------------------------------------------------------------------------------


def test_what_a_follower_reports_is_synced_where_the_topic_asks_for_it() -> None:
    async def scene(world: World) -> None:
        for number in range(10):
            await world[1].produce(b"%d" % number)
        for node in (2, 3):
            await world[node].crash(Kept.NOTHING)
            await world[node].open()
            assert world[node].values() == [b"%d" % number for number in range(10)]

    play(scene, *orders([1, 2, 3], min_isr=3), config("flush.messages", "1"))


def test_a_former_leader_reports_only_what_it_has_synced() -> None:
    async def scene(world: World) -> None:
        await world[1].produce(b"a")
        world.workers.latency_seconds_max = 0.5
        await world[1].append(b"b")
        await world.until(lambda: world[2].partition().log.log_end_offset == 2)
        await world.elect(2)
        old, new = world[1].partition(), world[2].partition()
        while new.high_watermark < 2:
            follower = new.follower(1)
            assert follower is not None
            assert follower.end_offset <= old.log.durable_end_offset
            await asyncio.sleep(0.001)
        assert old.log.durable_end_offset == 2

    play(scene, *orders([1, 2]), config("flush.messages", "1"), brokers=2)


def test_a_restarted_replica_knows_its_watermark() -> None:
    async def scene(world: World) -> None:
        await world[1].produce(b"a")
        await world.until(lambda: world[2].partition().high_watermark == 1)
        world.cut |= {(2, 1)}
        world[2].storage.directory.write_high_watermarks({TopicPartition(TOPIC, 0): 1})
        await world[2].crash(Kept.EVERYTHING)
        await world[2].open()
        assert world[2].partition().high_watermark == 1

    play(scene, *orders([1, 2, 3]))


def test_a_partition_with_a_broken_disk_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(world: World) -> None:
        broken = world[2].partition(0).log.active_segment
        write = Segment.write

        def fail(self: Segment, data: Any) -> int:
            if self is broken:
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(self, data)

        monkeypatch.setattr(Segment, "write", fail)
        monkeypatch.setattr(world[2].storage, "on_error", lambda error: None)  # It would refuse the other one, too.
        await world[1].append(b"a", number=0)
        await world[1].produce(b"b", number=1)
        assert world[2].values(1) == [b"b"]
        assert world[2].values(0) == []
        monkeypatch.setattr(Segment, "write", write)
        await world.until(lambda: world[2].values(0) == [b"a"])

    play(scene, *topic_records(TOPIC, partitions=2, replicas=(1, 2)), brokers=2)


def test_rolling_and_large_answers() -> None:
    async def scene(world: World) -> None:
        world.cut |= {(2, 1)}
        await world.elect(1, isr=[1])
        for number in range(40):
            await world[1].append(b"%d" % number * 500)
        world.cut.clear()
        await world.until(lambda: world.state().isr == (1, 2))
        assert world[2].log_bytes() == world[1].log_bytes()
        assert len(world[2].partition().log.segments) > 10
        sizes = [segment.size for segment in world[2].partition().log.segments]
        assert max(sizes) <= 2000

    play(scene, *orders([1, 2]), config("internal.segment.bytes", "2000"), brokers=2)


# -- transactions -----------------------------------------------------------------------------------------------------


def test_a_follower_knows_what_was_aborted() -> None:
    async def scene(world: World) -> None:
        leader = world[1].partition()
        await world[1].append(b"a", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        marker = end_transaction_marker(
            ControlType.ABORT, coordinator_epoch=0, producer_id=7, producer_epoch=0, timestamp=1
        )
        await leader.append(memoryview(marker), leader.log.append_own)
        await world[1].append(b"b", producer_id=8, producer_epoch=0, base_sequence=0, transactional=True)
        follower = world[2].partition()
        await world.until(lambda: follower.high_watermark == 3)
        assert follower.last_stable_offset == leader.last_stable_offset == 2
        _, aborted = await follower.read_committed(0, 1 << 20, min_one_batch=True)
        assert [(one.producer_id, one.first_offset) for one in aborted] == [(7, 0)]
        assert follower.log.producer_state.producers.keys() == leader.log.producer_state.producers.keys()

    play(scene, *orders([1, 2]), brokers=2)


# -- what is asked ----------------------------------------------------------------------------------------------------


def names_of(request: api.FetchRequest) -> list[int]:
    return sorted(one.partition for topic in request.topics for one in topic.partitions)


def test_requests_name_what_changed() -> None:
    async def scene(world: World) -> None:
        await asyncio.sleep(2)
        asked = world[2].fetches
        assert names_of(asked[0]) == list(range(50))
        assert all(names_of(request) == [] for request in asked[1:])
        assert len(asked) <= 7, "a long poll each half second"
        before = len(asked)
        await world[1].produce(b"x", number=17)
        assert names_of(asked[before]) == [17]
        assert asked[before].replica_state.replica_id == 2
        assert asked[before].replica_state.replica_epoch == 7
        named = asked[before].topics[0].partitions[0]
        assert (named.fetch_offset, named.last_fetched_epoch, named.current_leader_epoch) == (1, 0, 0)

    play(scene, *topic_records(TOPIC, partitions=50, replicas=(1, 2)), brokers=2)


def test_a_forgotten_session_is_begun_anew() -> None:
    async def scene(world: World) -> None:
        await world[1].produce(b"a")
        for session_id in list(world[1].sessions._sessions):
            world[1].sessions.remove(session_id)
        await world[1].produce(b"b")
        assert world[2].values() == [b"a", b"b"]

    play(scene, *orders([1, 2]), brokers=2)


def test_a_new_role_does_not_wait_for_the_long_poll() -> None:
    async def scene(world: World) -> None:
        await world[1].produce(b"a", number=0)
        await asyncio.sleep(0.7 * SETTINGS.wait_max_ms / 1000)
        started = world.clock.monotonic()
        await world.elect(1, number=1)
        await world[1].produce(b"b", number=1)
        assert world.clock.monotonic() - started < 0.1

    play(
        scene,
        *topic_records(TOPIC, partitions=1, replicas=(1, 2)),
        partition_record((2, 1), partition=1),
        brokers=2,
    )


def test_the_watermark_reaches_followers_promptly() -> None:
    async def scene(world: World) -> None:
        leader, follower = world[1].partition(), world[2].partition()
        for _ in range(5):
            await world[1].produce(b"a")
            started = world.clock.monotonic()
            await world.until(lambda: follower.high_watermark == leader.high_watermark)
            assert world.clock.monotonic() - started < 0.05
            await asyncio.sleep(0.3)

    play(scene, *orders([1, 2]), brokers=2)


# -- who holds what ---------------------------------------------------------------------------------------------------


def test_a_partition_moves_from_broker_to_broker() -> None:
    async def scene(world: World) -> None:
        await world[1].produce(b"a")
        await world.change(replicas=(1, 2, 3), adding_replicas=(3,), removing_replicas=(2,))
        await world.until(lambda: world.state().replicas == (1, 3))
        await world[1].produce(b"b")
        assert world[3].values() == [b"a", b"b"]
        assert world[2].partitions.find(TOPIC, 0) is None
        assert not [name for name in world[2].disk.list("/logs") if name == f"{TOPIC}-0"]
        await world.change(replicas=(1, 3, 2), adding_replicas=(2,))
        await world.until(lambda: set(world.state().isr) == {1, 2, 3})
        assert world[2].values() == [b"a", b"b"]

    play(scene, *orders([1, 2]))


def test_one_replica_grows_to_three_and_back_while_it_is_written() -> None:
    async def scene(world: World) -> None:
        sent = [b"0"]
        await world[1].produce(b"0")
        await world.change(replicas=(1, 2, 3), adding_replicas=(2, 3))
        while set(world.state().isr) != {1, 2, 3}:
            sent.append(b"%d" % len(sent))
            await world[1].produce(sent[-1])
            await asyncio.sleep(0.001)
        assert world[3].values() == sent[: len(world[3].values())]
        await world[1].produce(b"all three")
        assert world[2].values() == world[3].values() == [*sent, b"all three"]
        await world.change(removing_replicas=(2, 3))
        await world.until(lambda: world.state().replicas == (1,))
        assert world[1].partition().leadership is None
        await world[1].produce(b"alone")
        assert world[1].partition().high_watermark == len(sent) + 2

    play(scene, *orders([1]))


def test_a_recovering_leader_says_when_it_is_done() -> None:
    async def scene(world: World) -> None:
        await world.until(lambda: world.state().leader_recovery_state == 0)
        await world.until(lambda: set(world.state().isr) == {1, 2})

    play(scene, *orders([1, 2], isr=[1], leader_recovery_state=1), brokers=2)
