"""What kio does not have (metadata, coordinator and quorum records): bytes that Kafka itself has read and written."""

from pathlib import Path

import pytest
from kio.schema.index import schema_name_map

from ottla.wire import api
from ottla.wire.codec import codec_for
from tests.unit.wire.message_values import every_version

LINES = Path(__file__).with_name("kafka_vectors.txt").read_text().splitlines()[1:]


@pytest.mark.parametrize("line", LINES, ids=lambda line: " v".join(line.split()[:2]))
def test_kafkas_bytes_are_read_to_the_end_and_written_back(line: str) -> None:
    name, version, encoded = line.split()
    data = bytes.fromhex(encoded)
    codec = codec_for(getattr(api, name), int(version))
    message, end = codec.decode(memoryview(data), 0)
    assert end == len(data)
    assert codec.encode(message) == data


def test_every_message_has_an_oracle() -> None:
    paths = (path for versions in schema_name_map.values() for types in versions.values() for path in types.values())
    in_kio = {path.rpartition(":")[2] for path in paths}
    in_vectors = {(line.split()[0], int(line.split()[1])) for line in LINES}
    needed = {(made.__name__, version) for made, version in every_version() if made.__name__ not in in_kio}
    assert needed == in_vectors
