"""The quorum on disks and over peers: elections, replication, deaths, full and failing disks, restarts."""

import asyncio
import errno

import pytest

from ottla.base.errors import ApiError, ErrorCode
from sim.disk_nodes import Kept
from tests.unit.broker.quorum.members import BOOTSTRAP_ID, Members, describe

OTHER_CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"


def test_one_node_founds_a_quorum_of_its_own_and_commits():
    members = Members()

    async def scene():
        member = await members.found()
        assert await member.quorum.wait_leader() == 1
        assert member.quorum.image.features["metadata.version"] == 29
        await member.create("orders")
        assert member.topics == ["orders"]
        assert [voter.key for voter in member.quorum.voters] == [member.me.key]

    members.play(scene())


@pytest.mark.parametrize("kept", list(Kept))
def test_what_is_committed_survives_a_crash_and_every_start_is_a_new_epoch(kept):
    members = Members()

    async def scene():
        member = await members.found()
        await member.quorum.wait_leader()
        await member.create("orders")
        epoch = member.quorum.epoch
        member.kill(kept)
        await member.start()
        await member.quorum.wait_leader()
        assert member.quorum.epoch > epoch
        assert member.topics == ["orders"]
        await member.create("payments")

    members.play(scene())


def test_a_node_that_finds_no_leader_says_whom_it_waits_for(caplog):
    members = Members(3)

    async def scene():
        await members.found()
        await members.until(lambda: members[3].topics == members[1].topics)
        for member in members.alive:
            member.kill()
        await members[3].start(joins=1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await members[3].quorum.wait_leader()
        assert "2 of the voters 1, 2, 3 must run" in caplog.text
        await members[2].start(joins=1)
        await members[3].quorum.wait_leader()

    members.play(scene())


async def wait_for_leader(members, node_id):
    async with asyncio.timeout(60):
        await members[node_id].quorum.wait_leader()


@pytest.mark.parametrize("is_new", [False, True], ids=["a voter by its log", "knows only whom to ask"])
def test_a_node_of_another_cluster_is_told_so_instead_of_waiting(is_new):
    members = Members(4)

    async def scene():
        for node_id in (1, 2, 3):
            await members[node_id].start(joins=1 if node_id > 1 else None)
        await members.until(lambda: all(len(member.quorum.voters) == 3 for member in members.alive))
        stranger = members[4 if is_new else 3]
        if not is_new:
            stranger.kill()
        stranger.cluster_id = OTHER_CLUSTER_ID
        await stranger.start(joins=1, may_join=False)
        with pytest.raises(ApiError) as refused:
            await wait_for_leader(members, stranger.node_id)
        assert refused.value.code is ErrorCode.INCONSISTENT_CLUSTER_ID
        assert set(stranger.quorum.foreign_ids) == ({BOOTSTRAP_ID} if is_new else {1, 2})
        assert members.leader is not None

    members.play(scene())


def test_one_node_of_another_cluster_among_the_voters_keeps_nobody_from_waiting_for_the_right_ones(caplog):
    members = Members(3)

    async def scene():
        await members.found()
        for member in members.alive:
            member.kill()
        members[3].cluster_id = OTHER_CLUSTER_ID
        await members[3].start(joins=1)
        await members[1].start()
        with pytest.raises(TimeoutError):
            await wait_for_leader(members, 1)
        assert "another cluster answers for the nodes 3" in caplog.text
        await members[2].start(joins=1)
        await wait_for_leader(members, 1)
        assert members.leader is not None

    members.play(scene())


def test_three_nodes_become_voters_and_have_the_same_image():
    members = Members(3)

    async def scene():
        leader = await members.found()
        await leader.create("orders")
        await members.until(lambda: all(member.topics == ["orders"] for member in members.alive))
        assert [member.quorum.leader_id for member in members.alive] == [1, 1, 1]
        assert [member.quorum.is_leader for member in members.alive] == [True, False, False]

    members.play(scene())


def test_a_killed_leader_is_replaced_at_once_and_nothing_acknowledged_is_lost():
    members = Members(3)

    async def scene():
        first = await members.found()
        for number in range(20):
            await first.create(f"topic-{number}")
        before = members.world.clock.monotonic()
        first.kill(Kept.NOTHING)
        await members.until(lambda: members.leader is not None)
        assert members.world.clock.monotonic() - before < 0.5
        second = members.leader
        assert second.topics == [f"topic-{number}" for number in range(20)]
        await second.create("after")
        await first.start(joins=2)
        await members.until(lambda: first.topics == second.topics)
        assert first.quorum.leader_id == second.node_id
        assert first.quorum.epoch == second.quorum.epoch

    members.play(scene())


def test_a_leader_that_stops_in_order_hands_over():
    members = Members(3)

    async def scene():
        first = await members.found()
        await first.create("orders")
        await first.stop()
        await members.until(lambda: members.leader is not None, 1.0)
        await members.leader.create("payments")

    members.play(scene())


def test_a_leader_that_is_cut_off_commits_nothing_and_follows_when_it_is_back():
    members = Members(3)

    async def scene():
        first = await members.found()
        first.is_cut_off = True
        lost = asyncio.ensure_future(first.create("lost"))
        await members.until(lambda: members.leader is not None)
        await members.leader.create("kept")
        with pytest.raises(ApiError) as undecided:
            await lost
        assert undecided.value.code is ErrorCode.REQUEST_TIMED_OUT
        first.is_cut_off = False
        await members.until(lambda: first.topics == ["kept"])
        with pytest.raises(ApiError) as refused:
            await first.create("refused")
        assert refused.value.code is ErrorCode.NOT_CONTROLLER

    members.play(scene())


def test_without_a_majority_nobody_leads():
    members = Members(3)

    async def scene():
        first = await members.found()
        members[2].kill()
        members[3].kill()
        await members.until(lambda: not first.quorum.is_leader)
        await asyncio.sleep(20)
        assert members.leader is None
        await members[2].start(joins=1)
        await members.until(lambda: members.leader is not None)

    members.play(scene())


# ---- snapshots ----


def test_a_node_that_is_behind_the_log_gets_the_snapshot_and_tells_what_changed():
    members = Members(3)

    async def scene():
        first = await members.found()
        await first.create("before")
        third = members[3]
        await members.until(lambda: third.topics == ["before"])
        third.kill()
        for round_number in range(3):
            for number in range(20):
                await first.create(f"topic-{round_number}-{number}")
            assert await first.snapshots.maybe_take()
        assert first.quorum.store.log.log_start_offset > third.quorum.image.offset
        await first.create("last")
        await third.start(joins=1)
        await members.until(lambda: third.topics == first.topics)
        assert third.quorum.store.log.log_start_offset > 0
        third.kill(Kept.NOTHING)
        await third.start(joins=1)
        await members.until(lambda: third.topics == first.topics)
        assert len(third.quorum.voters) == 3

    members.play(scene())


def test_voters_survive_in_snapshots_when_their_records_are_gone():
    members = Members(3)

    async def scene():
        first = await members.found()
        for _ in range(3):
            for number in range(30):
                await first.create(f"topic-{members.world.clock.monotonic()}-{number}")
            await first.snapshots.maybe_take()
        assert first.quorum.store.log.log_start_offset > 20
        for member in members.alive:
            member.kill()
        for member in members.by_id.values():
            await member.start(joins=1)
        await members.until(lambda: members.leader is not None)
        assert {len(member.quorum.voters) for member in members.alive} == {3}

    members.play(scene())


# ---- disks ----


def test_a_full_disk_of_the_leader_refuses_a_change_and_nothing_else():
    members = Members(3)

    async def scene():
        first = await members.found()
        first.disk.capacity_bytes = first.disk.used_bytes()
        with pytest.raises(ApiError) as refused:
            await first.create("orders")
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        first.disk.capacity_bytes = None
        await first.create("orders")
        await members.until(lambda: members[2].topics == ["orders"])

    members.play(scene())


def test_a_full_disk_of_a_follower_waits_for_room():
    members = Members(3)

    async def scene():
        first = await members.found()
        third = members[3]
        third.disk.capacity_bytes = third.disk.used_bytes()
        for number in range(5):
            await first.create(f"topic-{number}")  # The other two are a majority.
        await asyncio.sleep(5)
        assert third.topics == []
        third.disk.capacity_bytes = None
        await members.until(lambda: third.topics == first.topics)

    members.play(scene())


def test_a_failed_fsync_ends_the_leadership_of_this_node_for_good(caplog):
    members = Members(3)

    async def scene():
        first = await members.found()

        async def broken_sync():
            raise OSError(errno.EIO, "Input/output error")

        first.quorum.store.sync = broken_sync
        with pytest.raises(ApiError) as undecided:
            await first.create("unknown")
        assert undecided.value.code is ErrorCode.REQUEST_TIMED_OUT
        assert "check the disk, then restart this node" in caplog.text
        await members.until(lambda: members.leader is not None, 1.0)
        await members.leader.create("after")
        await asyncio.sleep(5)
        assert "after" not in first.topics
        with pytest.raises(ApiError) as refused:
            await first.create("refused")
        assert refused.value.code is ErrorCode.NOT_CONTROLLER

    members.play(scene())


def test_a_follower_that_cannot_read_its_log_leaves_the_quorum_and_says_so(caplog):
    members = Members(3)

    async def scene():
        first = await members.found()

        def broken_read(*_):
            raise OSError(errno.EIO, "Input/output error")

        members[3].quorum.store.read_now = broken_read
        await first.create("orders")
        await asyncio.sleep(1)
        assert "check the disk, then restart this node" in caplog.text
        with pytest.raises(ApiError):
            await members[3].quorum.wait_leader()

    members.play(scene())


# ---- who asks ----


def test_the_leader_describes_the_quorum():
    members = Members(3)

    async def scene():
        first = await members.found()
        (partition,) = describe(first).topics[0].partitions
        assert (partition.error_code, partition.leader_id) == (0, 1)
        assert [voter.replica_id for voter in partition.current_voters] == [1, 2, 3]
        assert partition.high_watermark == first.quorum.image.offset + 1
        assert [node.listeners[0].port for node in describe(first).nodes] == [9001, 9002, 9003]
        (partition,) = describe(members[2]).topics[0].partitions
        assert (partition.error_code, partition.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 1)

    members.play(scene())


@pytest.mark.parametrize(("topic", "partition"), [("orders", 0), ("__cluster_metadata", 1)])
def test_only_the_metadata_log_has_a_quorum(topic, partition):
    members = Members()

    async def scene():
        member = await members.found()
        await member.quorum.wait_leader()
        (answer,) = describe(member, topic, partition).topics[0].partitions
        assert ErrorCode(answer.error_code).name == "UNKNOWN_TOPIC_OR_PARTITION"

    members.play(scene())
