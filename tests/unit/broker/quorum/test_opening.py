"""What a directory says at the start: its voters, its log, its snapshot; directories of older nodes among them."""

import asyncio
import json

import pytest

from ottla.base.errors import InvariantViolation
from ottla.base.types import TopicPartition
from ottla.broker.quorum.log_reading import log_batches, metadata_batches
from ottla.broker.quorum.opening import is_own_quorum, open_quorum, read_state
from ottla.log.config import FOREVER, LogConfig
from ottla.log.directory import LogDirectory
from ottla.metadata.bootstrap import bootstrap_records
from ottla.metadata.image import MetadataBatch, MetadataImage
from ottla.metadata.records import encode_record
from ottla.metadata.snapshot import SnapshotFiles
from ottla.raft.control_records import encode_control
from ottla.raft.log_view import LeaderChange
from ottla.raft.quorum_state import QuorumState
from ottla.raft.voters import NOT_IN_LOG, ReplicaKey, VoterSet
from ottla.wire.records import BatchBuilder, ControlType, batches, control_type_of, records_of
from sim.disk_nodes import Kept
from tests.unit.broker.quorum.members import CLUSTER_ID, DATA, Member, Members
from tests.unit.metadata.cluster import topic_records

METADATA = f"{DATA}/__cluster_metadata-0"


def log_of(member: Member):
    directory = LogDirectory.open(
        member.disk, DATA, cluster_id=CLUSTER_ID, node_id=member.node_id, new_directory_id=member.directory_id
    )
    config = LogConfig(flush_messages=1, retention_ms=FOREVER)
    return directory.open_partition(TopicPartition("__cluster_metadata", 0), config, 0)


def write_old_directory(member: Member, *, with_snapshot: bool) -> None:
    """As a node left it that was a quorum of one before voters were written down: one leader change, some records."""
    log = log_of(member)
    image = MetadataImage()

    def append(*records: object) -> None:
        builder = BatchBuilder()
        for record in records:
            builder.append(0, None, encode_record(record))
        appended = log.append_own(memoryview(builder.build()), leader_epoch=3, now_ms=0)
        image.replay_batch(MetadataBatch(records, appended.last_offset, 3, 0))

    change = encode_control(LeaderChange(leader_id=1, voters=VoterSet((member.me,)), granting_ids=(1,)), timestamp=0)
    log.append_own(memoryview(change), leader_epoch=3, now_ms=0)
    append(*bootstrap_records())
    append(*topic_records("old"))
    if with_snapshot:
        SnapshotFiles(member.disk, METADATA).write(image, 0)
    state = {"clusterId": "", "leaderId": 1, "leaderEpoch": 3, "votedId": -1, "appliedOffset": 0}
    state |= {"currentVoters": [{"voterId": 1}], "data_version": 0}
    member.disk.replace(f"{METADATA}/quorum-state", json.dumps(state).encode())
    log.close()


@pytest.mark.parametrize("with_snapshot", [False, True])
def test_a_directory_of_a_quorum_of_one_goes_on_and_names_its_voter(with_snapshot):
    members = Members(2)

    async def scene():
        member = members[1]
        write_old_directory(member, with_snapshot=with_snapshot)
        await member.start()
        await member.quorum.wait_leader()
        assert member.quorum.epoch > 3
        assert member.topics == ["old"]
        await member.create("new")
        assert [voter.key for voter in member.quorum.voters] == [member.me.key]
        assert member.quorum.voters.node_ids == (1,)
        member.kill(Kept.NOTHING)
        await member.start()
        await member.quorum.wait_leader()
        assert member.topics == ["old", "new"]
        await members[2].start(joins=1)
        await members.until(lambda: len(member.quorum.voters) == 2 and members[2].topics == member.topics)

    members.play(scene())


def test_a_new_log_begins_with_its_leader_the_version_and_the_voters():
    members = Members()

    async def scene():
        member = await members.found()
        await member.quorum.wait_leader()
        region = member.quorum.store.log.read(0, 1 << 20)
        found = list(batches(memoryview(region.file.pread(region.size, region.position))))
        types = [control_type_of(next(records_of(batch.view)).key) for batch in found[:3]]
        assert types == [ControlType.LEADER_CHANGE, ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS]
        assert [batch.header.is_control for batch in found] == [True, True, True, False]

    members.play(scene())


def test_who_joined_and_has_not_fetched_yet_never_founds_a_quorum():
    members = Members(2)

    async def scene():
        second = members[2]
        await second.start(joins=1)  # Nobody is there.
        await asyncio.sleep(5)
        assert not second.quorum.voters
        second.kill()
        assert not open_quorum(second.disk, log_of(second), second.me, may_found=False).view.voters.latest

    members.play(scene())


@pytest.mark.parametrize(
    ("state", "is_own"),
    [
        (QuorumState(epoch=4, leader_id=1), True),
        (QuorumState(epoch=4, voted=ReplicaKey(1, Members()[1].directory_id)), True),
        (QuorumState(epoch=4, leader_id=2), False),
        (QuorumState(epoch=4), False),
    ],
)
def test_only_who_led_or_voted_for_itself_was_its_own_quorum(state, is_own):
    assert is_own_quorum(state, 1, is_new=False, may_found=True) is is_own


def test_only_who_knows_of_no_cluster_founds_one():
    assert is_own_quorum(QuorumState(), 1, is_new=True, may_found=True)
    assert not is_own_quorum(QuorumState(), 1, is_new=True, may_found=False)


def test_a_lost_quorum_state_cannot_bring_an_old_epoch_back():
    members = Members()

    async def scene():
        member = await members.found()
        await member.quorum.wait_leader()
        epoch = member.quorum.epoch
        member.kill()
        member.disk.remove(f"{METADATA}/quorum-state")
        assert read_state(member.disk, METADATA) is None
        await member.start()
        await member.quorum.wait_leader()
        assert member.quorum.epoch > epoch

    members.play(scene())


# ---- the log and the snapshot ----


def written(member: Member, *names: str):
    """A log with these topics and its image."""
    log = log_of(member)
    image = MetadataImage()
    for number, name in enumerate(names):
        builder = BatchBuilder()
        records = topic_records(name, number=number)
        for record in records:
            builder.append(0, None, encode_record(record))
        appended = log.append_own(memoryview(builder.build()), leader_epoch=1, now_ms=0)
        image.replay_batch(MetadataBatch(records, appended.last_offset, 1, 0))
    return log, image


def test_the_image_is_the_newest_snapshot_and_the_watermark_its_end():
    member = Members()[1]
    log, image = written(member, "a", "b")
    SnapshotFiles(member.disk, METADATA).write(image, 0)
    opened = open_quorum(member.disk, log, member.me, may_found=True)
    assert list(opened.image.topics) == ["a", "b"]
    assert opened.view.snapshot_id == (4, 1)
    assert (opened.view.log_start_offset, opened.view.log_end_offset, opened.view.last_epoch) == (0, 4, 1)
    assert opened.view.end_of_epoch(1) == (1, 4)


def test_a_log_that_ends_before_the_snapshot_begins_anew_behind_it():
    member = Members()[1]
    log, image = written(member, "a", "b")
    SnapshotFiles(member.disk, METADATA).write(image, 0)
    log.truncate_to(2, now_ms=0)
    opened = open_quorum(member.disk, log, member.me, may_found=True)
    assert (log.log_start_offset, log.log_end_offset) == (4, 4)
    assert (opened.view.log_start_offset, opened.view.log_end_offset, opened.view.last_epoch) == (4, 4, 1)


def test_a_gap_between_snapshot_and_log_stops_the_node():
    member = Members()[1]
    log, _ = written(member, "a", "b")
    log.delete_records_before(2)
    with pytest.raises(InvariantViolation, match="goes on where the snapshot ends"):
        open_quorum(member.disk, log, member.me, may_found=True)


def test_a_rotten_batch_stops_the_node():
    member = Members()[1]
    log, _ = written(member, "a", "b")
    region = log.read(0, 1 << 20)
    region.file.pwrite(b"\xff", region.size - 3)
    with pytest.raises(InvariantViolation, match="can be read"):
        open_quorum(member.disk, log, member.me, may_found=True)
    with pytest.raises(InvariantViolation, match="can be read"):
        metadata_batches(region.file.pread(region.size, region.position), 0)


def test_a_long_log_is_read_in_pieces(monkeypatch):
    monkeypatch.setattr("ottla.broker.quorum.log_reading.READ_BYTES", 300)
    member = Members()[1]
    log, _ = written(member, *(f"topic-{number}" for number in range(20)))
    assert [batch.base_offset for batch in log_batches(log, 0)] == list(range(0, 40, 2))


def test_without_voters_in_the_log_the_set_is_not_of_the_log():
    member = Members()[1]
    log, _ = written(member, "a")
    opened = open_quorum(member.disk, log, member.me, may_found=True)
    assert opened.view.voters.latest_offset == NOT_IN_LOG
