"""The simulated disk: what survives a crash, what a fault leaves behind, and the same trace for the same seed."""

import errno
from random import Random

import pytest

from sim.disk import SimulatedCrash, SimulatedDisk
from sim.disk_nodes import SECTOR_BYTES, Kept

DIRECTORY = "/data"


def new_disk(seed: int = 1, capacity_bytes: int | None = None) -> SimulatedDisk:
    disk = SimulatedDisk(Random(seed), capacity_bytes=capacity_bytes)
    disk.make_directory(DIRECTORY)
    disk.sync_directory("/")
    return disk


def write_synced(disk: SimulatedDisk, path: str, data: bytes) -> None:
    file = disk.open(path, create=True)
    file.pwrite(data, 0)
    file.sync()
    disk.sync_directory(DIRECTORY)


class TestFiles:
    def test_reading_what_was_written(self) -> None:
        disk = new_disk()
        file = disk.open("/data/log", create=True)
        file.pwrite(b"hello", 3)
        assert (file.pread(100, 0), file.pread(2, 3), file.pread(5, 100), file.size()) == (
            b"\0\0\0hello",
            b"he",
            b"",
            8,
        )
        file.truncate(4)
        assert disk.read("/data/log") == b"\0\0\0h"
        file.truncate(6)
        assert disk.list_with_sizes("/data") == [("log", 6)]

    def test_names(self) -> None:
        disk = new_disk()
        disk.make_directory("/data/a/b")
        disk.replace("/data/a/file", b"one")
        disk.rename("/data/a/file", "/data/a/other")
        assert disk.list("/data/a") == ["b", "other"]
        assert (disk.exists("/data/a/file"), disk.exists("/data/a/b")) == (False, True)
        disk.remove("/data/a/missing")
        disk.remove_tree("/data/a")
        disk.remove_tree("/data/a")
        assert disk.list("/data") == []
        with pytest.raises(FileNotFoundError):
            disk.open("/data/none")
        with pytest.raises(FileNotFoundError):
            disk.list("/data/none")


class TestCrashes:
    def test_unsynced_bytes_are_lost(self) -> None:
        disk = new_disk()
        write_synced(disk, "/data/log", b"synced")
        disk.open("/data/log").pwrite(b"not synced", 6)
        disk.crash(Kept.NOTHING)
        assert disk.read("/data/log") == b"synced"

    def test_a_killed_process_loses_nothing_until_the_power_goes_too(self) -> None:
        disk = new_disk()
        disk.open("/data/log", create=True).pwrite(b"not synced", 0)
        disk.crash(Kept.EVERYTHING)
        assert disk.read("/data/log") == b"not synced"
        disk.crash(Kept.NOTHING)
        assert not disk.exists("/data/log")

    def test_bytes_that_were_cut_off_do_not_come_back_behind_new_ones(self) -> None:
        for seed in range(100):
            disk = new_disk(seed)
            write_synced(disk, "/data/log", b"o" * SECTOR_BYTES * 8)
            file = disk.open("/data/log")
            file.truncate(SECTOR_BYTES)
            file.pwrite(b"n" * SECTOR_BYTES * 3, SECTOR_BYTES)
            disk.crash(Kept.PART)
            after = disk.read("/data/log")
            assert after == b"o" * SECTOR_BYTES * 8 or b"o" not in after[SECTOR_BYTES:]

    def test_a_file_whose_name_was_not_synced_is_lost_with_its_synced_bytes(self) -> None:
        disk = new_disk()
        file = disk.open("/data/log", create=True)
        file.pwrite(b"synced", 0)
        file.sync()
        disk.crash(Kept.NOTHING)
        assert not disk.exists("/data/log")

    def test_an_unsynced_removal_and_rename_come_undone(self) -> None:
        disk = new_disk()
        write_synced(disk, "/data/one", b"1")
        write_synced(disk, "/data/two", b"2")
        disk.remove("/data/one")
        disk.rename("/data/two", "/data/three")
        disk.crash(Kept.NOTHING)
        assert disk.list("/data") == ["one", "two"]

    def test_part_of_the_bytes_survives_by_sector_or_up_to_a_point(self) -> None:
        old, new = b"o" * SECTOR_BYTES * 4, b"n" * SECTOR_BYTES * 8
        outcomes = set()
        for seed in range(200):
            disk = new_disk(seed)
            write_synced(disk, "/data/log", old)
            disk.open("/data/log").pwrite(new, 0)
            disk.crash(Kept.PART)
            after = disk.read("/data/log")
            assert set(after) <= set(b"on\0")
            assert len(old) <= len(after) <= len(new)
            assert b"\0" not in after[: len(old)]
            outcomes.add(after)
        assert old in outcomes
        assert new in outcomes
        assert any(b"\0n" in after for after in outcomes)  # A hole before bytes that arrived.
        assert any(after.count(b"n") % SECTOR_BYTES for after in outcomes)  # A tear inside a sector.

    def test_replace_leaves_the_old_or_the_new_whatever_survives(self) -> None:
        for seed in range(30):
            for change in range(8):
                disk = new_disk(seed)
                disk.replace("/data/checkpoint", b"old")
                disk.crash_at(change)
                try:
                    disk.replace("/data/checkpoint", b"newer")
                except SimulatedCrash:
                    finished = False
                else:
                    finished = True
                disk.crash(Kept.PART)
                assert disk.read("/data/checkpoint") in ((b"newer",) if finished else (b"old", b"newer"))

    def test_old_handles_are_dead_and_the_machine_is_off_until_the_restart(self) -> None:
        disk = new_disk()
        file = disk.open("/data/log", create=True)
        disk.crash_at(0)
        with pytest.raises(SimulatedCrash):
            file.pwrite(b"x", 0)
        with pytest.raises(SimulatedCrash):
            disk.list("/data")
        disk.crash(Kept.EVERYTHING)
        assert disk.list("/data") == ["log"]
        with pytest.raises(SimulatedCrash):
            file.size()


class TestFaults:
    def test_the_nth_call_fails_once(self) -> None:
        disk = new_disk()
        file = disk.open("/data/log", create=True)
        disk.fail_at(1)
        file.pwrite(b"one", 0)
        with pytest.raises(OSError, match="error") as caught:
            file.sync()
        assert caught.value.errno == errno.EIO
        file.sync()

    def test_a_failed_write_leaves_some_part_of_itself(self) -> None:
        sizes = set()
        for seed in range(30):
            disk = new_disk(seed)
            file = disk.open("/data/log", create=True)
            disk.fail_at(0, errno.ENOSPC)
            with pytest.raises(OSError, match="space"):
                file.pwrite(b"0123456789", 0)
            sizes.add(file.size())
        assert len(sizes) > 5

    def test_a_full_disk_refuses_until_something_goes(self) -> None:
        disk = new_disk(capacity_bytes=100)
        write_synced(disk, "/data/old", bytes(60))
        file = disk.open("/data/log", create=True)
        with pytest.raises(OSError, match="space") as caught:
            file.pwrite(bytes(50), 0)
        assert caught.value.errno == errno.ENOSPC
        assert disk.free_bytes("/data") == 0
        disk.remove("/data/old")
        file.pwrite(bytes(50), 0)
        assert disk.free_bytes("/data") == 50


def test_a_seed_gives_the_same_trace_and_the_same_bytes() -> None:
    def run(seed: int) -> tuple[str, bytes]:
        disk = new_disk(seed)
        write_synced(disk, "/data/log", bytes(5_000))
        disk.open("/data/log").pwrite(b"x" * 10_000, 2_500)
        disk.crash(Kept.PART)
        return disk.trace.digest(), disk.read("/data/log")

    assert [run(seed) for seed in range(20)] == [run(seed) for seed in range(20)]
    assert len({run(seed)[1] for seed in range(20)}) > 5
