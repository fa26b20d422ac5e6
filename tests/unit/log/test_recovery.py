"""Opening after a crash: torn tails, flipped bits (scene 8), lost files. What a crash at every call does: sim/."""

import logging

import pytest

from ottla.log.config import LogConfig
from ottla.log.partition_log import PartitionLog
from sim.disk import Kept, SimulatedDisk
from tests.unit.log.support import DIRECTORY, append, batch_of, batch_of_bytes, headers_of, new_disk, open_log

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=300)


def written(disk: SimulatedDisk, batch_count: int = 10) -> PartitionLog:
    """Batches of 500 bytes and ten records, four to a segment."""
    log = open_log(disk, CONFIG)
    for number in range(batch_count):
        append(log, batch_of_bytes(500, 10), leader_epoch=number // 3)
    return log


def overwrite(disk: SimulatedDisk, name: str, position: int, data: bytes) -> None:
    disk.open(f"{DIRECTORY}/{name}").pwrite(data, position)


def bases(log: PartitionLog) -> list[int]:
    return [header.base_offset for header in headers_of(log)]


def index_entries(log: PartitionLog) -> list[list[list[tuple[int, int]]]]:
    return [[[*index.entries()] for index in segment.indexes()] for segment in log.segments]


def test_after_a_killed_process_everything_is_there() -> None:
    disk = new_disk()
    log = written(disk)
    disk.crash(Kept.EVERYTHING)
    again = open_log(disk, CONFIG)
    assert bases(again) == list(range(0, 100, 10))
    assert again.epochs.entries() == log.epochs.entries() == [(0, 0), (1, 30), (2, 60), (3, 90)]
    assert index_entries(again) == index_entries(log)
    assert again.recovery_point == 0, "what was read back may be in the page cache alone"


def test_a_log_opens_on_a_full_disk_and_its_records_are_synced() -> None:
    """The metadata log's, say: what lies beside them is written with a later flush."""
    disk = new_disk()
    written(disk)
    disk.crash(Kept.EVERYTHING)
    disk.capacity_bytes = disk.used_bytes()
    config = LogConfig(segment_bytes=2000, index_interval_bytes=300, flush_messages=1)
    again = open_log(disk, config)
    assert again.recovery_point == 0, "nobody may believe indexes that are not there"
    disk.capacity_bytes = None
    disk.crash(Kept.NOTHING)
    once_more = open_log(disk, config)
    assert once_more.log_end_offset == once_more.recovery_point == 100


@pytest.mark.parametrize("left_bytes", [1, 11, 12, 60, 61, 300, 499])
def test_a_torn_tail_is_cut(left_bytes: int) -> None:
    disk = new_disk()
    written(disk)
    path = f"{DIRECTORY}/{80:020d}.log"
    file = disk.open(path)
    file.truncate(500 + left_bytes)
    again = open_log(disk, CONFIG)
    assert (again.log_end_offset, again.active_segment.size) == (90, 500)
    assert len(disk.read(path)) == 500
    assert append(again, batch_of()).base_offset == 90


def test_scene_8_a_flipped_bit_beyond_the_recovery_point(caplog: pytest.LogCaptureFixture) -> None:
    """The rotten batch is named; it and all behind it are cut, later segments removed."""
    disk = new_disk()
    written(disk)
    overwrite(disk, f"{40:020d}.log", 1000 + 100, b"\xff")
    with caplog.at_level(logging.ERROR):
        again = open_log(disk, CONFIG, recovery_point=40)
    assert again.log_end_offset == 60
    assert [segment.base_offset for segment in again.segments] == [0, 40]
    assert f"{40:020d}.log at position 1000 (offsets 60 to 69)" in caplog.text
    assert not any(name.startswith(f"{80:020d}") for name in disk.list(DIRECTORY))
    assert append(again, batch_of()).base_offset == 60


def test_scene_8_a_flipped_bit_below_the_recovery_point_costs_one_batch_not_the_rest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = new_disk()
    written(disk)
    overwrite(disk, f"{80:020d}.log", 100, b"\xff")
    with caplog.at_level(logging.ERROR):
        again = open_log(disk, CONFIG, recovery_point=95)
    assert again.log_end_offset == 100
    assert "kept because it lies below the recovery point" in caplog.text


def test_segments_before_the_recovery_point_are_not_read() -> None:
    disk = new_disk()
    written(disk).flush()
    before = disk.trace.event_count
    open_log(disk, CONFIG, recovery_point=85)
    calls = list(disk.trace.recent)[before - disk.trace.event_count :]
    assert not [call for call in calls if f"{0:020d}" in call]
    assert [call for call in calls if call.startswith("pread") and f"{80:020d}.log" in call]


def test_a_segment_that_lost_its_end_takes_the_later_ones_with_it() -> None:
    disk = new_disk()
    written(disk)
    disk.open(f"{DIRECTORY}/{40:020d}.log").truncate(1000)
    again = open_log(disk, CONFIG)
    assert bases(again) == [0, 10, 20, 30, 40, 50]
    assert again.epochs.entries() == [(0, 0), (1, 30)]


def test_an_empty_segment_that_a_failed_roll_left_behind_goes() -> None:
    disk = new_disk()
    log = written(disk)
    log.close()
    disk.open(f"{DIRECTORY}/{85:020d}.log", create=True)
    for is_clean in (True, False):
        assert open_log(disk, CONFIG, clean_shutdown=is_clean, recovery_point=100).log_end_offset == 100


def test_a_clean_shutdown_that_was_none_is_noticed(caplog: pytest.LogCaptureFixture) -> None:
    disk = new_disk()
    written(disk).close()
    disk.open(f"{DIRECTORY}/{80:020d}.log").truncate(900)
    assert open_log(disk, CONFIG, clean_shutdown=True).log_end_offset == 90
    assert "in spite of a clean shutdown" in caplog.text


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "torn", "zeros", "empty"])
def test_a_damaged_index_is_rebuilt(suffix: str, damage: str) -> None:
    disk = new_disk()
    config = LogConfig(index_interval_bytes=300)
    log = open_log(disk, config)
    for number in range(20):
        append(log, batch_of_bytes(500, 10, timestamp=1_700_000_000_000 + number))
    log.close()
    good = [index.entries() for index in log.active_segment.indexes()]
    path = f"{DIRECTORY}/{0:020d}{suffix}"
    size = len(disk.read(path))
    if damage == "missing":
        disk.remove(path)
    else:
        file = disk.open(path)
        file.truncate(0 if damage != "torn" else size - 3)
        file.truncate({"torn": size - 3, "zeros": size, "empty": 0}[damage])
    again = open_log(disk, config, clean_shutdown=True)
    assert again.read(150, 1000).first_offset == 150
    found = again.offset_for_timestamp(1_700_000_000_010)
    assert found is not None and found.offset == 100
    if suffix == ".timeindex" or damage != "empty":
        assert [index.entries() for index in again.active_segment.indexes()] == good


def test_an_index_without_its_log_is_removed() -> None:
    disk = new_disk()
    written(disk).close()
    disk.open(f"{DIRECTORY}/{999:020d}.timeindex", create=True)
    open_log(disk, CONFIG, clean_shutdown=True)
    assert f"{999:020d}.timeindex" not in disk.list(DIRECTORY)


def test_a_log_that_ends_before_its_start_begins_there() -> None:
    disk = new_disk()
    written(disk)
    again = open_log(disk, CONFIG, log_start_offset=500)
    assert (again.log_start_offset, again.log_end_offset, again.epochs.entries()) == (500, 500, [])
    assert append(again, batch_of()).base_offset == 500


def test_leader_epochs_are_read_from_the_log_when_their_file_is_rotten() -> None:
    disk = new_disk()
    log = written(disk)
    log.close()
    disk.replace(f"{DIRECTORY}/leader-epoch-checkpoint", b"garbage")
    assert open_log(disk, CONFIG, clean_shutdown=True).epochs.entries() == log.epochs.entries()


# Producers


def sequences(log: PartitionLog) -> dict[int, int]:
    return {producer_id: producer.last_sequence for producer_id, producer in log.producer_state.producers.items()}


def with_producers(disk: SimulatedDisk) -> PartitionLog:
    log = open_log(disk, CONFIG)
    for number in range(30):
        append(log, batch_of(producer=(number % 3, 0, number // 3), value_bytes=150))
    return log


@pytest.mark.parametrize("damage", ["none", "last snapshot rotten", "all snapshots rotten", "all snapshots gone"])
@pytest.mark.parametrize("is_clean", [True, False])
def test_producers_come_back_whatever_happens_to_the_snapshots(damage: str, is_clean: bool) -> None:
    disk = new_disk()
    log = with_producers(disk)
    log.close()
    snapshots = [name for name in disk.list(DIRECTORY) if name.endswith(".snapshot")]
    assert len(snapshots) > 2
    for name in snapshots[-1:] if damage == "last snapshot rotten" else snapshots if "all" in damage else []:
        if "gone" in damage:
            disk.remove(f"{DIRECTORY}/{name}")
        else:
            overwrite(disk, name, 12, b"\xff\xff")
    again = open_log(disk, CONFIG, clean_shutdown=is_clean, recovery_point=30)
    assert sequences(again) == sequences(log) == {0: 9, 1: 9, 2: 9}
    assert append(again, batch_of(producer=(0, 0, 10))).base_offset == 30


def test_a_snapshot_older_than_the_log_tells_nothing() -> None:
    """Its sequences are outdated: refusing by them would lock the producer out."""
    disk = new_disk()
    log = with_producers(disk)
    oldest = log.snapshots.offsets[0]
    old = disk.read(log.snapshots.path(oldest))
    first = list(log.segments)[:-1]
    log.detach(first)
    log.rename_deleted(first)
    log.delete_files(first)
    for offset in log.snapshots.offsets:
        disk.remove(log.snapshots.path(offset))
    disk.replace(log.snapshots.path(oldest), old)
    again = open_log(disk, CONFIG)
    assert all(sequence > 5 for sequence in sequences(again).values())
    assert append(again, batch_of(producer=(0, 0, 10))).base_offset == 30
