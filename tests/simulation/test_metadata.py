"""Metadata under a quorum that lags and fails, and on a disk that loses power at every change of a snapshot."""

from itertools import count
from random import Random
from uuid import UUID

import pytest

from ottla.base.types import TopicPartition
from ottla.log.config import FOREVER, LogConfig
from ottla.log.directory import LogDirectory
from ottla.log.partition_log import PartitionLog
from ottla.metadata.image import MetadataImage
from ottla.metadata.quorum_of_one import append_records, load_image, open_quorum_of_one
from ottla.metadata.snapshot import SnapshotFiles
from ottla.wire import api
from sim.clock import SimulatedClock
from sim.disk import SimulatedCrash, SimulatedDisk
from sim.disk_nodes import Kept
from sim.metadata_scenario import MetadataScenario

DATA = "/data"
CONFIG = LogConfig(segment_bytes=2_000, flush_messages=1, retention_ms=FOREVER, retention_bytes=FOREVER)


@pytest.mark.parametrize("first_seed", range(0, 60, 10))
def test_commits_that_lag_and_fail(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 10):
        MetadataScenario(seed).run()


def test_a_seed_twice_gives_the_same_trace() -> None:
    assert [MetadataScenario(seed).run() for seed in range(5)] == [MetadataScenario(seed).run() for seed in range(5)]


class MetadataOnDisk:
    """The metadata log of a quorum of one and its snapshots, driven as the node drives them."""

    def __init__(self, seed: int) -> None:
        self.disk = SimulatedDisk(Random(seed))
        self.disk.make_directory(DATA)
        self.disk.sync_directory("/")
        self.clock = SimulatedClock()
        self.acknowledged: list[str] = []
        self.asked: list[str] = []
        self.open()

    def open(self) -> None:
        directory = LogDirectory.open(self.disk, DATA, cluster_id="sim", node_id=1, new_directory_id=UUID(int=1))
        self.log: PartitionLog = directory.open_partition(
            TopicPartition("__cluster_metadata", 0), CONFIG, self.clock.now_ms()
        )
        opened = open_quorum_of_one(
            disk=self.disk, directory=self.log.directory, log=self.log, node_id=1, clock=self.clock
        )
        self.image, self.epoch = opened.image, opened.epoch

    def create_topic(self) -> None:
        name = f"topic-{len(self.asked)}"
        self.asked.append(name)
        record = api.TopicRecord(name=name, topic_id=UUID(int=len(self.asked), version=4))
        if self.log.should_roll(200, self.clock.now_ms()):
            self.log.roll()
        batch = append_records(self.log, [record], self.epoch, self.clock.now_ms())
        self.image.replay_batch(batch)
        self.log.flush(now_ms=self.clock.now_ms())
        self.acknowledged.append(name)

    def snapshot(self) -> None:
        files = SnapshotFiles(self.disk, self.log.directory)
        files.write(self.image, self.clock.now_ms())
        needed_from = files.remove_old()
        self.log.roll()
        self.log.delete_records_before(needed_from)
        expired = self.log.plan_retention(self.clock.now_ms())
        self.log.detach(expired)
        self.log.rename_deleted(expired)
        self.log.delete_files(expired)

    def check(self) -> None:
        names = list(self.image.topics)
        assert set(self.acknowledged) <= set(names) <= set(self.asked)
        replayed = load_image(self.disk, self.log.directory, self.log)
        assert (list(replayed.topics), replayed.offset) == (names, self.image.offset)


@pytest.mark.parametrize("kept", list(Kept))
def test_the_power_goes_at_every_change_of_a_snapshot(kept: Kept) -> None:
    for seed in range(3):
        for change in count():
            metadata = MetadataOnDisk(seed)
            for _ in range(25):
                metadata.create_topic()
            metadata.snapshot()
            for _ in range(25):
                metadata.create_topic()
            metadata.disk.crash_at(change)
            try:
                metadata.snapshot()
                metadata.create_topic()
            except SimulatedCrash:
                crashed = True
            else:
                crashed = False
            metadata.disk.crash(kept)
            metadata.open()
            metadata.check()
            metadata.create_topic()
            metadata.check()
            if not crashed:
                break
        assert change > 10


def test_an_epoch_is_never_used_twice_however_often_the_start_fails() -> None:
    for change in range(40):
        metadata = MetadataOnDisk(change)
        epochs = [metadata.epoch]
        metadata.disk.crash_at(change)
        try:
            metadata.open()
            epochs.append(metadata.epoch)
        except SimulatedCrash:
            pass
        metadata.disk.crash(Kept.PART)
        metadata.open()
        epochs.append(metadata.epoch)
        assert epochs == sorted(set(epochs))
        assert isinstance(metadata.image, MetadataImage)
