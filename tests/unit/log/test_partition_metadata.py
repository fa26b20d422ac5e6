from uuid import UUID

import pytest

from ottla.log.partition_metadata import (
    decode_partition_metadata,
    encode_partition_metadata,
    read_topic_id,
    write_topic_id,
)
from tests.unit.log.support import new_disk

TOPIC_ID = UUID("0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0")


def test_the_file_is_kafkas() -> None:
    assert encode_partition_metadata(TOPIC_ID) == b"version: 0\ntopic_id: Dx4tPEtaaXiHlqW0w9Lh8A"
    assert decode_partition_metadata(encode_partition_metadata(TOPIC_ID)) == TOPIC_ID


@pytest.mark.parametrize("data", [b"", b"version: 0", bytes(43), b"version: 0\ntopic_id: Dx4t\0\0\0"])
def test_a_torn_file_says_nothing(data: bytes) -> None:
    assert decode_partition_metadata(data) is None


def test_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="version 1"):
        decode_partition_metadata(b"version: 1\ntopic_id: Dx4tPEtaaXiHlqW0w9Lh8A")


def test_what_is_written_is_read() -> None:
    disk = new_disk()
    write_topic_id(disk, "/logs", TOPIC_ID)
    assert read_topic_id(disk, "/logs") == TOPIC_ID
