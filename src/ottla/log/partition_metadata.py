"""The `partition.metadata` file: which topic the directory belongs to, whatever its name says.

A topic deleted and created again has the same name and another id. Kafka's text, version 0, the id in URL-safe base64
without padding.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from posixpath import join
from uuid import UUID

from ottla.base.disk import Disk
from ottla.base.types import TopicId
from ottla.log.file_names import PARTITION_METADATA


def encode_topic_id(topic_id: TopicId) -> str:
    return urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()


def decode_topic_id(text: str) -> TopicId:
    """`ValueError` for anything but 22 characters of URL-safe base64."""
    return UUID(bytes=urlsafe_b64decode(text + "=="))


def encode_partition_metadata(topic_id: TopicId) -> bytes:
    return f"version: 0\ntopic_id: {encode_topic_id(topic_id)}".encode()


def decode_partition_metadata(data: bytes) -> TopicId | None:
    """`None` for a file that a crash left torn: the id is then assigned again. `ValueError` for another version."""
    fields = dict(line.split(": ", 1) for line in data.decode(errors="replace").splitlines() if ": " in line)
    version = fields.get("version", "")
    if version.isdigit() and version != "0":
        raise ValueError(f"partition.metadata has version {version}, which we do not know")
    try:
        return decode_topic_id(fields["topic_id"])
    except (KeyError, ValueError):
        return None


def sync_topic_id(disk: Disk, directory: str) -> None:
    file = disk.open(join(directory, PARTITION_METADATA))
    try:
        file.sync()
    finally:
        file.close()


def read_topic_id(disk: Disk, directory: str) -> TopicId | None:
    return decode_partition_metadata(disk.read(join(directory, PARTITION_METADATA)))


def write_topic_id(disk: Disk, directory: str, topic_id: TopicId) -> None:
    """Not synced: the log syncs it with its first flush, and ten thousand new partitions need not wait for the disk."""
    file = disk.open(join(directory, PARTITION_METADATA), create=True)
    try:
        file.pwrite(encode_partition_metadata(topic_id), 0)
    finally:
        file.close()
