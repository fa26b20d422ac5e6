"""The C library: found, loaded, and clear about what it refuses."""

import pytest

from ottla.client import librdkafka
from ottla.client.librdkafka import ClientError

from .conftest import MockCluster


def test_the_wheels_library_is_found() -> None:
    assert "librdkafka" in librdkafka.library_path()
    assert int(librdkafka.version().split(".")[0]) >= 2


def test_a_wrong_option_is_named() -> None:
    with pytest.raises(ClientError, match=r"no\.such\.option"):
        librdkafka.Handle(librdkafka.PRODUCER, "topic", {"no.such.option": 1})


def test_a_topic_nobody_knows_is_named(mock_cluster: MockCluster) -> None:
    config = {"bootstrap.servers": mock_cluster.bootstrap_servers, "allow.auto.create.topics": False, "log_level": 0}
    handle = librdkafka.Handle(librdkafka.CONSUMER, "no-such-topic", config)
    with pytest.raises(ClientError, match="no-such-topic"):
        handle.partition_count(timeout_seconds=10)
    handle.close()


def test_partitions_are_counted(mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic(partitions=7)
    handle = librdkafka.Handle(librdkafka.PRODUCER, topic, {"bootstrap.servers": mock_cluster.bootstrap_servers})
    assert handle.partition_count(timeout_seconds=10) == 7
    handle.close()
    handle.close()  # A second time does nothing.
