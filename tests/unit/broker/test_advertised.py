"""A bootstrap address that will not work for the client is explained, once."""

import pytest

from ottla.broker.advertised import AdvertisedAddresses, is_loopback
from ottla.broker.request import Peer


def peer(host: str, listener: str = "PLAINTEXT", local_host: str = "") -> Peer:
    return Peer(host=host, port=1, listener=listener, local_host=local_host)


def test_a_remote_client_told_localhost_is_explained_once_a_listener() -> None:
    addresses = AdvertisedAddresses()
    text = addresses.check(peer("10.1.2.3"), "localhost", 9092)
    assert text is not None
    assert "10.1.2.3" in text and "advertised.listeners=PLAINTEXT://" in text
    assert addresses.check(peer("10.1.2.4"), "localhost", 9092) is None
    assert addresses.check(peer("10.1.2.4", "OUTSIDE"), "127.0.0.1", 9093) is not None


def test_the_fix_names_the_address_that_the_client_came_through() -> None:
    text = AdvertisedAddresses().check(peer("10.1.2.3", local_host="10.1.2.9"), "localhost", 9092)
    assert text is not None
    assert "advertised.listeners=PLAINTEXT://10.1.2.9:9092" in text
    text = AdvertisedAddresses().check(peer("fd00::3", local_host="fd00::9"), "localhost", 9092)
    assert text is not None
    assert "advertised.listeners=PLAINTEXT://[fd00::9]:9092" in text


@pytest.mark.parametrize(
    ("host", "advertised"), [("127.0.0.1", "localhost"), ("::1", "localhost"), ("10.1.2.3", "broker.example")]
)
def test_what_works_is_not_explained(host: str, advertised: str) -> None:
    assert AdvertisedAddresses().check(peer(host), advertised, 9092) is None


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("127.8.0.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False),
        ("x.y", False),
    ],
)
def test_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
