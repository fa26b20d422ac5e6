"""Files that a crash left half-way."""

from ottla.log.interrupted import settle_interrupted
from sim.disk import SimulatedDisk
from tests.unit.log.support import DIRECTORY, append, batch_of, headers_of, new_disk, open_log


def touch(disk: SimulatedDisk, *names: str) -> None:
    for name in names:
        disk.open(f"{DIRECTORY}/{name}", create=True)


def test_a_tidy_directory_is_only_listed() -> None:
    disk = new_disk()
    disk.make_directory(DIRECTORY)
    touch(disk, f"{0:020d}.log")
    before = disk.change_count
    assert settle_interrupted(disk, DIRECTORY) == {f"{0:020d}.log": 0}
    assert disk.change_count == before


def test_unfinished_deletions_and_compactions_go() -> None:
    disk = new_disk()
    disk.make_directory(DIRECTORY)
    touch(disk, f"{0:020d}.log", f"{5:020d}.log.deleted", f"{0:020d}.log.cleaned", f"{0:020d}.index.cleaned")
    touch(disk, f"{9:020d}.log.swap", "leader-epoch-checkpoint.tmp")
    assert list(settle_interrupted(disk, DIRECTORY)) == [f"{0:020d}.log"]


def test_a_finished_compaction_is_put_in_place() -> None:
    """Segments 0 and 10 were compacted into one, whose files were still called `.swap`; segment 20 was not touched."""
    disk = new_disk()
    log = open_log(disk)
    for _ in range(3):
        append(log, batch_of(10))
        log.roll()
    compacted = disk.read(f"{DIRECTORY}/{10:020d}.log")
    file = disk.open(f"{DIRECTORY}/{0:020d}.log.swap", create=True)
    file.pwrite(compacted, 0)
    touch(disk, f"{0:020d}.index.swap", f"{0:020d}.timeindex.swap")
    disk.remove(f"{DIRECTORY}/{10:020d}.index")  # The crash came while the old ones were being renamed.
    again = open_log(disk, recovery_point=30)
    assert [segment.base_offset for segment in again.segments] == [0, 20, 30]
    assert [header.base_offset for header in headers_of(again)] == [10, 20]
    assert again.read(0, 1000).first_offset == 10
