"""Listeners and what clients are told of them: mistakes that would end in time-outs are explained in the broker's log."""

import socket

import pytest
from confluent_kafka.admin import AdminClient

import ottla.testing
from ottla.testing import Broker
from tests.conformance.waiting import eventually

pytestmark = pytest.mark.needs_ottla


@pytest.fixture
def port() -> int:
    """A free one."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def require_told(broker: Broker, *texts: str) -> None:
    def told() -> None:
        assert all(text in broker.log for text in texts), broker.log

    eventually(told)


def advertised_host(port: int) -> str:
    (broker,) = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"}).list_topics(timeout=10).brokers.values()
    return str(broker.host)


def test_a_broker_on_every_address_says_which_one_it_tells_clients(port: int) -> None:
    with ottla.testing.broker(config={"listeners": f"PLAINTEXT://0.0.0.0:{port}"}) as broker:
        host = advertised_host(port)
        assert host == socket.gethostname()
        require_told(broker, f"clients are told {host}:{port}", "set advertised.listeners=PLAINTEXT://")


def test_an_advertised_name_that_does_not_resolve_is_told(port: int) -> None:
    config = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "advertised.listeners": f"PLAINTEXT://no-such-host.invalid:{port}",
    }
    with ottla.testing.broker(config=config) as broker:
        assert advertised_host(port) == "no-such-host.invalid"
        require_told(broker, "no-such-host.invalid", "does not resolve here", "set advertised.listeners=PLAINTEXT://")


def test_an_advertised_port_on_which_nobody_listens_is_told(port: int) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf_port = deaf.getsockname()[1]
        config = {
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{deaf_port}",
        }
        with ottla.testing.broker(config=config) as broker:
            fix = f"set advertised.listeners=PLAINTEXT://127.0.0.1:{port}"
            require_told(broker, f"127.0.0.1:{deaf_port}, where nobody answers", fix)


def test_a_broker_with_nothing_to_explain_explains_nothing() -> None:
    with ottla.testing.broker() as broker:
        advertised_host(broker.port)
        assert "advertised.listeners" not in broker.log
