"""A log directory: whose it is, what it remembers, what it refuses."""

from uuid import UUID

import pytest

from ottla.base.types import TopicPartition
from ottla.log.config import LogConfig
from ottla.log.directory import LogDirectory, read_identity
from ottla.log.meta_properties import WrongDirectory
from ottla.log.partition_log import PartitionLog
from sim.disk import SimulatedDisk
from tests.unit.log.support import NOW_MS, append, batch_of, new_disk

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
FORMER_ID, NEW_ID = UUID(int=1), UUID(int=2)


def open_directory(disk: SimulatedDisk, *, cluster_id: str = "c1", node_id: int = 1) -> LogDirectory:
    return LogDirectory.open(disk, "/logs", cluster_id=cluster_id, node_id=node_id, new_directory_id=UUID(int=9))


def test_an_empty_directory_becomes_ours_and_nobody_elses() -> None:
    disk = new_disk()
    assert read_identity(disk, "/logs") is None
    assert open_directory(disk).directory_id == UUID(int=9)
    again = LogDirectory.open(disk, "/logs", cluster_id="c1", node_id=1, new_directory_id=UUID(int=10))
    assert again.directory_id == UUID(int=9), "it keeps the id it was given first"
    with pytest.raises(WrongDirectory, match="cluster c1, this node to c2"):
        open_directory(disk, cluster_id="c2")
    with pytest.raises(WrongDirectory, match="node 1, this is node 2"):
        open_directory(disk, node_id=2)


def test_a_clean_shutdown_is_remembered_once() -> None:
    disk = new_disk()
    directory = open_directory(disk)
    logs = [directory.open_partition(each, LogConfig(), NOW_MS) for each in (ORDERS_0, ORDERS_1)]
    for log in logs:
        append(log, batch_of(5))
    logs[0].delete_records_before(3)
    directory.write_high_watermarks({ORDERS_0: 4})
    directory.close(logs, broker_epoch=77)
    assert disk.read("/logs/recovery-point-offset-checkpoint") == b"0\n2\norders 0 5\norders 1 5\n"
    assert disk.read("/logs/log-start-offset-checkpoint") == b"0\n1\norders 0 3\n"

    again = open_directory(disk)
    assert (again.was_clean_shutdown, again.last_broker_epoch) == (True, 77)
    assert again.high_watermarks == {ORDERS_0: 4}
    assert again.find_partitions() == [ORDERS_0, ORDERS_1]
    reopened = again.open_partition(ORDERS_0, LogConfig(), NOW_MS)
    assert (reopened.log_start_offset, reopened.log_end_offset, reopened.recovery_point) == (3, 5, 5)

    assert not open_directory(disk).was_clean_shutdown, "from its start on a node is one that may crash"


def test_a_rotten_checkpoint_costs_a_longer_recovery_only() -> None:
    disk = new_disk()
    directory = open_directory(disk)
    log = directory.open_partition(ORDERS_0, LogConfig(), NOW_MS)
    append(log, batch_of(5))
    directory.close([log], broker_epoch=1)
    disk.replace("/logs/recovery-point-offset-checkpoint", b"\0\0\0")
    again = open_directory(disk)
    assert not again.was_clean_shutdown
    assert again.open_partition(ORDERS_0, LogConfig(), NOW_MS).log_end_offset == 5


def test_a_deleted_partition_frees_its_name_at_once() -> None:
    disk = new_disk()
    directory = open_directory(disk)
    log = directory.open_partition(ORDERS_0, LogConfig(), NOW_MS, topic_id=UUID(int=1))
    append(log, batch_of(5))
    path = directory.rename_deleted(log, "0123abcd")
    assert path == "/logs/orders-0.0123abcd-delete"
    recreated = directory.open_partition(ORDERS_0, LogConfig(), NOW_MS, topic_id=UUID(int=2))
    assert recreated.log_end_offset == 0
    directory.remove_deleted(path)
    assert not disk.exists(path)


def test_what_leaves_twice_before_it_is_removed_has_two_names() -> None:
    """A partition that leaves, comes back and leaves again within `file.delete.delay.ms`, in one epoch of its leader."""
    disk = new_disk()
    directory = open_directory(disk)
    paths = []
    for _ in range(3):
        log = directory.open_partition(ORDERS_0, LogConfig(), NOW_MS)
        append(log, batch_of(5))
        paths.append(directory.rename_deleted(log, "0123abcd"))
    assert paths == [f"/logs/orders-0.0123abcd{number}-delete" for number in ("", "-2", "-3")]
    for _ in range(2):
        append(directory.open_partition(ORDERS_0, LogConfig(), NOW_MS), batch_of(5))
        name = directory.set_aside(ORDERS_0, "0123abcd")
    assert name == "orders-0.0123abcd-2-stray"


def checkpointed(directory: LogDirectory) -> PartitionLog:
    """Ten records, of which all four checkpoints tell."""
    log = directory.open_partition(ORDERS_0, LogConfig(), NOW_MS, topic_id=FORMER_ID)
    for _ in range(10):
        append(log, batch_of(1))
    log.flush()
    log.delete_records_before(7)
    directory.write_recovery_points([log])
    directory.write_log_starts([log])
    directory.write_high_watermarks({ORDERS_0: 10})
    directory.write_cleaned_end(ORDERS_0, 9)
    return log


@pytest.mark.parametrize("is_deleted_here", [True, False])
def test_a_partition_of_a_name_that_was_there_before_keeps_its_records_in_a_crash(is_deleted_here: bool) -> None:
    """A log start of the former one would cut them all off, its other checkpoints would be believed."""
    disk = new_disk()
    directory = open_directory(disk)
    log = checkpointed(directory)
    if is_deleted_here:
        directory.rename_deleted(log, "0123abcd")
    else:  # While this node was down.
        directory = open_directory(disk)
        assert directory.set_aside(ORDERS_0, "0123abcd") == "orders-0.0123abcd-stray"
    directory.forget_absent([ORDERS_0])
    append(directory.open_partition(ORDERS_0, LogConfig(), NOW_MS, topic_id=NEW_ID), batch_of(2))

    again = open_directory(disk)
    assert (again.high_watermarks, again.cleaned_ends) == ({}, {})
    log = again.open_partition(ORDERS_0, LogConfig(), NOW_MS, topic_id=NEW_ID)
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (0, 2, 0)


def test_what_was_set_aside_is_kept_and_named() -> None:
    disk = new_disk()
    checkpointed(open_directory(disk))
    bytes_before = disk.read("/logs/orders-0/00000000000000000000.log")
    directory = open_directory(disk)
    assert directory.topic_id_of(ORDERS_0) == FORMER_ID
    name = directory.set_aside(ORDERS_0, "0123abcd")
    again = open_directory(disk)
    assert (again.find_partitions(), again.find_strays()) == ([], [name])
    assert disk.read(f"/logs/{name}/00000000000000000000.log") == bytes_before


def test_checkpoints_of_partitions_that_are_there_stay() -> None:
    disk = new_disk()
    checkpointed(open_directory(disk))
    open_directory(disk).forget_absent([ORDERS_0, ORDERS_1])
    again = open_directory(disk)
    assert (again.high_watermarks, again.cleaned_ends) == ({ORDERS_0: 10}, {ORDERS_0: 9})


def test_a_crash_between_a_truncation_and_its_checkpoint_leaves_nothing_uncleaned_behind() -> None:
    disk = new_disk()
    directory = open_directory(disk)
    log = directory.open_partition(ORDERS_0, LogConfig(), NOW_MS)
    append(log, batch_of(5))
    append(log, batch_of(5))
    directory.write_cleaned_end(ORDERS_0, 8)
    log.truncate_to(5, now_ms=NOW_MS)
    open_directory(disk).open_partition(ORDERS_0, LogConfig(), NOW_MS)
    assert open_directory(disk).cleaned_ends == {ORDERS_0: 5}


def test_what_a_crash_left_of_a_deleted_partition_is_found() -> None:
    disk = new_disk()
    directory = open_directory(disk)
    log = directory.open_partition(ORDERS_0, LogConfig(), NOW_MS)
    path = directory.rename_deleted(log, "0123abcd")
    again = open_directory(disk)
    assert (again.find_partitions(), again.find_deleted()) == ([], [path])


def test_a_recovery_point_beyond_the_end_is_corrected_before_anything_is_appended() -> None:
    disk = new_disk()
    directory = open_directory(disk)
    log = directory.open_partition(ORDERS_0, LogConfig(), NOW_MS)
    append(log, batch_of(5))
    append(log, batch_of(5))
    log.flush()
    directory.write_recovery_points([log])
    log.truncate_to(5, now_ms=NOW_MS)
    open_directory(disk).open_partition(ORDERS_0, LogConfig(), NOW_MS)
    assert disk.read("/logs/recovery-point-offset-checkpoint") == b"0\n1\norders 0 5\n"
