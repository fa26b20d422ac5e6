"""The real disk: what the port promises, on a real file system."""

import errno
import os
from pathlib import Path

import pytest

from ottla.server import real_disk
from ottla.server.real_disk import RealDisk


@pytest.fixture
def disk() -> RealDisk:
    return RealDisk()


def test_files_are_read_and_written_at_positions(disk: RealDisk, tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    with pytest.raises(FileNotFoundError):
        disk.open(path)
    file = disk.open(path, create=True)
    file.pwrite(b"hello", 3)
    file.pwrite(memoryview(bytearray(b"HE")), 3)
    assert (file.size(), file.pread(100, 0), file.pread(2, 4)) == (8, b"\0\0\0HEllo", b"El")
    file.truncate(4)
    file.sync()
    assert disk.read(path) == b"\0\0\0H"
    file.close()
    file.close()
    with pytest.raises(OSError):
        file.pread(1, 0)


def test_short_writes_and_reads_are_continued(disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel may write less than it was asked to: here never more than three bytes a call."""
    pwrite, pread = os.pwrite, os.pread
    monkeypatch.setattr(real_disk.os, "pwrite", lambda fd, data, at: pwrite(fd, data[:3], at))
    monkeypatch.setattr(real_disk.os, "pread", lambda fd, size, at: pread(fd, min(size, 3), at))
    file = disk.open(str(tmp_path / "file"), create=True)
    file.pwrite(b"0123456789", 0)
    assert file.pread(10, 0) == b"0123456789"
    assert file.pread(10, 6) == b"6789"
    assert file.pread(10, 99) == b""


def test_a_full_disk_is_an_error(disk: RealDisk) -> None:
    if not Path("/dev/full").exists():
        return
    with pytest.raises(OSError) as failed:
        disk.open("/dev/full").pwrite(b"x", 0)
    assert failed.value.errno == errno.ENOSPC


def test_a_handle_closes_itself_with_its_last_reference(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.open(str(tmp_path / "file"), create=True)
    descriptor = file.fileno()
    assert not os.get_inheritable(descriptor)
    kept = file
    del file
    os.fstat(descriptor)
    del kept
    with pytest.raises(OSError):
        os.fstat(descriptor)


def test_an_open_file_outlives_its_name(disk: RealDisk, tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    file = disk.open(path, create=True)
    file.pwrite(b"data", 0)
    disk.rename(path, path + ".deleted")
    disk.remove(path + ".deleted")
    disk.remove(path + ".deleted")
    assert not disk.exists(path)
    assert file.pread(4, 0) == b"data"


def test_directories_are_listed_with_the_sizes_of_their_files(disk: RealDisk, tmp_path: Path) -> None:
    disk.make_directory(str(tmp_path / "a" / "b"))
    disk.make_directory(str(tmp_path / "a" / "b"))
    (tmp_path / "a" / "z").write_bytes(b"123")
    (tmp_path / "a" / "c").write_bytes(b"")
    assert disk.list(str(tmp_path / "a")) == ["b", "c", "z"]
    assert list(disk.list_with_sizes(str(tmp_path / "a"))) == [("c", 0), ("z", 3)]
    disk.remove_tree(str(tmp_path / "a"))
    disk.remove_tree(str(tmp_path / "a"))
    assert not disk.exists(str(tmp_path / "a"))


def test_replace_leaves_the_old_or_the_new_and_nothing_else(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "checkpoint")
    disk.replace(path, b"a longer first version")
    disk.replace(path, b"second")
    assert disk.read(path) == b"second"
    assert disk.list(str(tmp_path)) == ["checkpoint"]

    def fails(source: str, target: str) -> None:
        raise OSError(errno.EIO, "no rename today", target)

    monkeypatch.setattr(real_disk.os, "replace", fails)
    with pytest.raises(OSError):
        disk.replace(path, b"third")
    assert disk.read(path) == b"second"


def test_facts_about_the_file_system(disk: RealDisk, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100_000)
    os.utime(path, (1_700_000_000, 1_700_000_000.5))
    assert disk.modified_ms(str(path)) == 1_700_000_000_500
    assert disk.free_bytes(str(tmp_path)) > 0
    assert disk.read(str(path)) == b"x" * 100_000
    disk.sync_directory(str(tmp_path))
