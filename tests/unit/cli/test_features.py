"""What a broker says of itself, read over a plain socket."""

import socket
import threading

import pytest

from ottla.cli.broker_socket import BrokerSocket
from ottla.cli.cluster import Feature, features_of
from ottla.cli.connection import Address, Connection
from ottla.cli.errors import UNREACHABLE, Failure
from ottla.wire import api
from ottla.wire.apis import ApiKey
from tests.unit.cli.conftest import Run


def test_features_in_force_and_possible_are_joined_by_name() -> None:
    response = api.ApiVersionsResponse(
        supported_features=[
            api.ApiVersionsResponse.SupportedFeatureKey(name="metadata.version", min_version=7, max_version=30),
            api.ApiVersionsResponse.SupportedFeatureKey(name="group.version", min_version=0, max_version=1),
        ],
        finalized_features=[
            api.ApiVersionsResponse.FinalizedFeatureKey(
                name="metadata.version", max_version_level=29, min_version_level=29
            ),
            api.ApiVersionsResponse.FinalizedFeatureKey(name="other", max_version_level=1, min_version_level=1),
        ],
    )
    assert features_of(response) == [
        Feature(name="group.version", finalized=0, supported_min=0, supported_max=1),
        Feature(name="metadata.version", finalized=29, supported_min=7, supported_max=30),
        Feature(name="other", finalized=1, supported_min=None, supported_max=None),
    ]


def test_a_broker_that_knows_less_is_asked_in_an_older_version(mock_cluster: str) -> None:
    """librdkafka's mock answers ApiVersions up to 2 and refuses what is tried first."""
    with BrokerSocket.open_any(Connection(servers=f"127.0.0.1:1,{mock_cluster}")) as broker:
        offered = {each.api_key for each in broker.abilities.api_keys}
        assert ApiKey.PRODUCE in offered
        with pytest.raises(Failure, match="does not offer DescribeConfigs"):
            broker.ask(ApiKey.DESCRIBE_CONFIGS, api.DescribeConfigsRequest(), api.DescribeConfigsResponse)


def test_a_command_that_asks_directly_needs_plain_text(run: Run, mock_cluster: str) -> None:
    result = run("features", "describe", "-b", mock_cluster, "-X", "security.protocol=SSL")
    assert result.exit_code == 1
    assert "PLAINTEXT" in result.stderr


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
        with pytest.raises(Failure, match="is it a Kafka listener") as caught:
            BrokerSocket(Address("127.0.0.1", listener.getsockname()[1]))
        assert caught.value.exit_code == UNREACHABLE
        thread.join()
