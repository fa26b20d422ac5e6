import pytest

from ottla.base.types import TopicPartition
from ottla.log.checkpoints import CorruptCheckpoint, OffsetCheckpoint, read_offsets, write_offsets
from tests.unit.log.support import new_disk

OFFSETS = {TopicPartition("orders", 1): 7, TopicPartition("a.b-c_d", 0): 2**40}


@pytest.mark.parametrize("which", list(OffsetCheckpoint))
def test_offsets_survive(which: OffsetCheckpoint) -> None:
    disk = new_disk()
    write_offsets(disk, "/logs", which, OFFSETS)
    assert read_offsets(disk, "/logs", which) == OFFSETS
    assert disk.list("/logs") == [which.value]


def test_the_file_is_kafkas() -> None:
    disk = new_disk()
    write_offsets(disk, "/logs", OffsetCheckpoint.RECOVERY_POINT, OFFSETS)
    assert disk.read("/logs/recovery-point-offset-checkpoint") == b"0\n2\na.b-c_d 0 1099511627776\norders 1 7\n"


def test_no_file_is_no_offsets() -> None:
    assert read_offsets(new_disk(), "/logs", OffsetCheckpoint.CLEANER) == {}


@pytest.mark.parametrize(
    "content",
    [b"", b"0\n", b"1\n0\n", b"0\n2\norders 0 1\n", b"0\n1\norders 0\n", b"0\n1\norders zero 1\n", b"\xff\n0\n"],
)
def test_anything_else_is_corrupt(content: bytes) -> None:
    disk = new_disk()
    disk.replace("/logs/replication-offset-checkpoint", content)
    with pytest.raises(CorruptCheckpoint, match="replication-offset-checkpoint"):
        read_offsets(disk, "/logs", OffsetCheckpoint.REPLICATION)
