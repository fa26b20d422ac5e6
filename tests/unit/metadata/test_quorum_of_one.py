"""The metadata log of one node over a real partition log and a simulated disk."""

import asyncio
import itertools
from random import Random
from uuid import UUID

import pytest

from ottla.base.errors import InvariantViolation
from ottla.base.types import TopicPartition
from ottla.log.config import FOREVER, LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.metadata.metadata_log import CommitFailed
from ottla.metadata.quorum_of_one import QuorumOfOne, load_image, open_quorum_of_one
from ottla.metadata.quorum_state import read_quorum_state
from ottla.metadata.snapshot import SnapshotFiles
from ottla.wire.records import ControlType, batches, control_type_of, records_of
from sim.clock import SimulatedClock
from sim.disk import Kept, SimulatedCrash, SimulatedDisk
from tests.unit.metadata.cluster import broker_record, replay, topic_records

DIRECTORY = "/data/__cluster_metadata-0"


class Machine:
    """A disk that survives restarts of the node on it."""

    def __init__(self):
        self.disk = SimulatedDisk(Random(1))
        self.disk.make_directory("/data")
        self.disk.sync_directory("/")
        self.clock = SimulatedClock()
        self.sync_error = None

    def start(self, node_id=1):
        config = LogConfig(flush_messages=1, retention_ms=FOREVER)
        self.log = PartitionLog.open(
            self.disk,
            DIRECTORY,
            TopicPartition("__cluster_metadata", 0),
            config,
            self.clock.now_ms(),
            topic_id=UUID(int=1),
        )
        self.opened = open_quorum_of_one(
            disk=self.disk, directory=DIRECTORY, log=self.log, node_id=node_id, clock=self.clock
        )
        self.quorum = QuorumOfOne(self.log, self.clock, self.opened.epoch, self.wait_durable)
        return self.opened.image

    async def wait_durable(self, end_offset):
        if self.sync_error is not None:
            raise self.sync_error
        self.log.flush(end_offset)

    def append(self, image, *records):
        batch = self.quorum.append(records)
        image.replay_batch(batch)
        asyncio.run(self.quorum.committed(batch.last_offset))


@pytest.fixture
def machine():
    return Machine()


def test_an_empty_directory_is_bootstrapped_durably(machine):
    image = machine.start()
    assert image.features == {"metadata.version": 29, "transaction.version": 2, "group.version": 1}
    assert machine.log.durable_end_offset == machine.log.log_end_offset == 4
    machine.disk.crash(Kept.NOTHING)
    assert machine.start().features == image.features
    assert machine.log.log_end_offset == 5  # Nothing was lost and bootstrapped again: one more leader change.


def test_the_log_begins_with_the_leader_change_of_the_first_epoch(machine):
    machine.start()
    region = machine.log.read(0, 1 << 20)
    first, second = batches(memoryview(region.file.pread(region.size, region.position)))
    assert first.header.is_control
    assert control_type_of(next(records_of(first.view)).key) is ControlType.LEADER_CHANGE
    assert (first.header.partition_leader_epoch, second.header.partition_leader_epoch) == (1, 1)
    assert second.header.record_count == 3


def test_every_start_is_a_new_epoch_and_says_so_first(machine):
    for epoch in (1, 2, 3):
        image = machine.start()
        assert machine.opened.epoch == epoch == image.epoch
        state = read_quorum_state(machine.disk, DIRECTORY)
        assert (state.leader_id, state.leader_epoch, state.voters) == (1, epoch, (1,))


def test_a_lost_quorum_state_cannot_bring_an_old_epoch_back(machine):
    machine.start()
    machine.start()
    machine.disk.remove(f"{DIRECTORY}/quorum-state")
    machine.start()
    assert machine.opened.epoch == 3


def test_what_is_committed_survives_a_power_cut(machine):
    image = machine.start()
    machine.append(image, broker_record(1), *topic_records("orders", partitions=3))
    machine.disk.crash(Kept.NOTHING)
    found = machine.start()
    assert found.topics["orders"].partitions == image.topics["orders"].partitions
    assert found.offset == image.offset + 1  # The new leader change.


def test_what_is_not_committed_may_be_lost_and_nothing_else_with_it(machine):
    image = machine.start()
    machine.append(image, *topic_records("kept"))
    machine.quorum.append(topic_records("lost", number=2))
    machine.disk.crash(Kept.NOTHING)
    assert list(machine.start().topics) == ["kept"]


def test_offsets_and_time_come_from_the_batch(machine):
    image = machine.start()
    machine.clock.advance(5)
    machine.append(image, *topic_records("orders"))
    assert image.offset == machine.log.log_end_offset - 1
    assert image.timestamp_ms == machine.clock.now_ms()


def test_a_failed_sync_is_a_failed_commit(machine):
    machine.start()
    batch = machine.quorum.append(topic_records("orders"))
    machine.sync_error = OSError(5, "broken")
    with pytest.raises(CommitFailed, match="broken"):
        asyncio.run(machine.quorum.committed(batch.last_offset))


def test_what_is_durable_already_needs_no_sync(machine):
    image = machine.start()
    machine.append(image, *topic_records("orders"))
    machine.sync_error = OSError(5, "broken")
    asyncio.run(machine.quorum.committed(image.offset))


def test_the_log_of_another_quorum_is_refused(machine):
    machine.start(node_id=1)
    with pytest.raises(InvariantViolation, match="only voter"):
        machine.start(node_id=2)


# ---- snapshots ----


def test_a_start_takes_the_snapshot_and_the_log_behind_it(machine):
    image = machine.start()
    machine.append(image, *topic_records("before"))
    SnapshotFiles(machine.disk, DIRECTORY).write(image, machine.clock.now_ms())
    machine.append(image, *topic_records("after", number=2))
    machine.log.roll()
    machine.log.delete_records_before(image.offset - 1)
    found = machine.start()
    assert list(found.topics) == ["before", "after"]


def test_a_log_that_ends_before_the_snapshot_begins_anew_behind_it(machine):
    image = machine.start()
    replay(image, *topic_records("orders"))  # Never in this log: as if its files had been taken away.
    SnapshotFiles(machine.disk, DIRECTORY).write(image, machine.clock.now_ms())
    found = machine.start()
    assert list(found.topics) == ["orders"]
    assert machine.log.log_start_offset == image.offset + 1
    assert found.offset == image.offset + 1


def test_a_gap_between_snapshot_and_log_stops_the_node(machine):
    image = machine.start()
    machine.append(image, *topic_records("orders"))
    machine.log.delete_records_before(3)
    with pytest.raises(InvariantViolation, match="goes on where the snapshot ends"):
        load_image(machine.disk, DIRECTORY, machine.log)


def test_a_rotten_batch_in_the_log_stops_the_node(machine):
    image = machine.start()
    machine.append(image, *topic_records("orders"))
    region = machine.log.read(0, 1 << 20)
    region.file.pwrite(b"\xff", region.size - 3)
    with pytest.raises(InvariantViolation, match="can be read"):
        load_image(machine.disk, DIRECTORY, machine.log)


def test_a_long_log_is_read_in_pieces(machine, monkeypatch):
    monkeypatch.setattr("ottla.metadata.quorum_of_one.READ_BYTES", 300)
    image = machine.start()
    for number in range(20):
        machine.append(image, *topic_records(f"t{number}", number=number))
    assert list(load_image(machine.disk, DIRECTORY, machine.log).topics) == list(image.topics)


# ---- crashes ----


@pytest.mark.parametrize("kept", list(Kept))
def test_a_crash_at_every_disk_operation_loses_nothing_that_was_committed(kept):
    """Appends, a snapshot, a restart: the machine dies before each change of the disk in turn."""
    for change in itertools.count():
        machine = Machine()
        image = machine.start()
        machine.append(image, *topic_records("before"))
        committed = ["before"]
        machine.disk.crash_at(change)
        try:
            for number in range(2, 4):
                machine.append(image, *topic_records(f"t{number}", number=number))
                committed.append(f"t{number}")
                SnapshotFiles(machine.disk, DIRECTORY).write(image, machine.clock.now_ms())
            machine.start()
        except SimulatedCrash:
            machine.disk.crash(kept)
        else:
            break
        found = machine.start()
        assert list(found.topics)[: len(committed)] == committed
        assert set(found.topics) <= {"before", "t2", "t3"}
        assert all(len(topic.partitions) == 1 for topic in found.topics.values())
    assert change > 10
