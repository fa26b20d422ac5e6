"""Kafka's small text files: `0`, the number of lines, then the lines.

Per log directory four files of "topic partition offset" (recovery point, log start, replication, cleaner), per
partition one of "epoch start-offset". They are replaced atomically; a file that does not parse is `CorruptCheckpoint`,
which only its reader can weigh: a lost recovery point costs a longer recovery, a lost epoch history could cost data.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from posixpath import join

from ottla.base.disk import Disk
from ottla.base.types import LeaderEpoch, Offset, TopicPartition


class CorruptCheckpoint(Exception):
    """The file is not what its format says; its path and the reason are in the text."""


class OffsetCheckpoint(StrEnum):
    RECOVERY_POINT = "recovery-point-offset-checkpoint"
    LOG_START = "log-start-offset-checkpoint"
    REPLICATION = "replication-offset-checkpoint"
    CLEANER = "cleaner-offset-checkpoint"


def read_offsets(disk: Disk, directory: str, which: OffsetCheckpoint) -> dict[TopicPartition, Offset]:
    """An absent file is an empty one: Kafka starts with none of them."""
    path = join(directory, which)
    if not disk.exists(path):
        return {}
    return {
        TopicPartition(topic, partition): offset for topic, partition, offset in _offset_lines(disk.read(path), path)
    }


def write_offsets(
    disk: Disk, directory: str, which: OffsetCheckpoint, offsets: Mapping[TopicPartition, Offset]
) -> None:
    lines = (f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items()))
    disk.replace(join(directory, which), _encode(lines))


def decode_epochs(data: bytes, path: str) -> list[tuple[LeaderEpoch, Offset]]:
    return [(epoch, offset) for epoch, offset in (_integers(line, path) for line in _lines(data, path))]


def encode_epochs(entries: Iterable[tuple[LeaderEpoch, Offset]]) -> bytes:
    return _encode(f"{epoch} {offset}" for epoch, offset in entries)


def _offset_lines(data: bytes, path: str) -> Iterable[tuple[str, int, int]]:
    for line in _lines(data, path):
        topic, _, numbers = line.partition(" ")
        partition, offset = _integers(numbers, path)
        yield topic, partition, offset


def _encode(lines: Iterable[str]) -> bytes:
    body = list(lines)
    return "\n".join(["0", str(len(body)), *body, ""]).encode()


def _lines(data: bytes, path: str) -> list[str]:
    try:
        version, count, *lines = data.decode().splitlines()
    except ValueError:
        raise CorruptCheckpoint(f"{path}: no version and count") from None
    if version != "0":
        raise CorruptCheckpoint(f"{path}: version {version!r} is not one we know")
    lines = [line for line in lines if line]
    if count != str(len(lines)):
        raise CorruptCheckpoint(f"{path}: {count} lines announced, {len(lines)} found")
    return lines


def _integers(text: str, path: str) -> tuple[int, int]:
    try:
        first, second = text.split()
        return int(first), int(second)
    except ValueError:
        raise CorruptCheckpoint(f"{path}: {text!r} is not two numbers") from None
