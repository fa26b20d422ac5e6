"""Brokers asked over plain sockets: librdkafka's mock cluster, and strangers."""

import socket
import threading

import pytest

from ottla.base.types import TopicPartition
from ottla.client import ClientError
from ottla.client.raw.address import Address, parse_address
from ottla.client.raw.cluster import Cluster, CoordinatorKind
from ottla.client.raw.connection import NO_CONNECTION, Connection
from ottla.wire import api
from ottla.wire.apis import ApiKey
from tests.unit.client.conftest import MockCluster


def cluster_at(servers: str) -> Cluster:
    return Cluster(servers, client_id="test", timeout_s=10)


def test_a_broker_that_knows_less_is_asked_in_an_older_version(mock_cluster: MockCluster) -> None:
    """librdkafka's mock answers ApiVersions up to 2 and refuses what is tried first."""
    with cluster_at(f"127.0.0.1:1,{mock_cluster.bootstrap_servers}") as cluster:
        assert ApiKey.PRODUCE in {each.api_key for each in cluster.abilities().api_keys}
        with pytest.raises(ClientError, match="does not offer DescribeConfigs"):
            cluster.ask(ApiKey.DESCRIBE_CONFIGS, api.DescribeConfigsRequest(), api.DescribeConfigsResponse)


def test_leaders_and_coordinators_are_found_by_name(mock_cluster: MockCluster) -> None:
    topic = mock_cluster.topic(partitions=3)
    with cluster_at(mock_cluster.bootstrap_servers) as cluster:
        brokers = set(cluster.brokers().values())
        assert brokers == {parse_address(server) for server in mock_cluster.bootstrap_servers.split(",")}
        leaders = cluster.leaders([topic])
        assert leaders.keys() == {TopicPartition(topic, partition) for partition in range(3)}
        assert set(leaders.values()) <= brokers
        assert cluster.coordinator(CoordinatorKind.GROUP, "payments") in brokers


def test_a_connection_that_broke_is_opened_again(mock_cluster: MockCluster) -> None:
    [address, *_] = mock_cluster.bootstrap_servers.split(",")
    with cluster_at(address) as cluster:
        before = cluster.brokers()
        [connection] = cluster._connections.values()
        connection._socket.shutdown(socket.SHUT_RDWR)
        with pytest.raises(ClientError, match=NO_CONNECTION):
            cluster.brokers()
        assert cluster.brokers() == before


def test_a_server_that_does_not_answer_is_asked_last_from_then_on(mock_cluster: MockCluster) -> None:
    """Else every question would wait for it anew, for as long as time-outs allow."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        listening = f"127.0.0.1:{silent.getsockname()[1]}"
        with Cluster(f"{listening},{mock_cluster.bootstrap_servers}", client_id="test", timeout_s=0.5) as cluster:
            assert cluster.brokers() == cluster.brokers()
        silent.accept()[0].close()
        silent.setblocking(False)
        with pytest.raises(BlockingIOError):
            silent.accept()


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\x06\0\0\0\1\0\0", b"\xff\xff\xff\xff"]
)
def test_a_stranger_on_the_port_is_no_answer(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            accepted, _ = listener.accept()
            with accepted:
                accepted.recv(4096)
                accepted.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(ClientError) as caught:
            Connection(Address("127.0.0.1", listener.getsockname()[1]), client_id="test", timeout_s=10)
        assert caught.value.code == NO_CONNECTION
        thread.join()
