from uuid import UUID

import pytest

from ottla.log.meta_properties import MetaProperties, WrongDirectory

DIRECTORY_ID = UUID("0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0")


def test_round_trip() -> None:
    identity = MetaProperties(cluster_id="abc", node_id=3, directory_id=DIRECTORY_ID)
    assert MetaProperties.decode(identity.encode(), "file") == identity


def test_reads_what_kafka_writes() -> None:
    written = (
        b"#\n#Sun Nov 15 16:00:00 UTC 2026\n"
        b"cluster.id=MkU3OEVBNTcwNTJENDM2Qk\ndirectory.id=Dx4tPEtaaXiHlqW0w9Lh8A\nnode.id=1\nversion=1\n"
    )
    assert MetaProperties.decode(written, "file") == MetaProperties(
        cluster_id="MkU3OEVBNTcwNTJENDM2Qk", node_id=1, directory_id=DIRECTORY_ID
    )


@pytest.mark.parametrize("data", [b"", b"version=2\ncluster.id=a\nnode.id=1\n", b"version=1\ncluster.id=a\n"])
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(WrongDirectory, match="file"):
        MetaProperties.decode(data, "file")
