"""Addresses that clients could not use: the mistake and its fix are told in one sentence, and nothing where all is well."""

import socket
from collections.abc import Iterator

import pytest

from ottla.broker.start import AdvertisedListener
from ottla.server.listeners import Address
from ottla.server.reachability import explain_unreachable


@pytest.fixture
def listening_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield sock.getsockname()[1]


@pytest.fixture
def deaf_port() -> Iterator[int]:
    """Bound, so that nobody else takes it, but nobody listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()[1]


def bound(port: int, host: str = "") -> Address:
    return Address(name="OUTSIDE", host=host, port=port)


def told(host: str, port: int) -> AdvertisedListener:
    return AdvertisedListener(name="OUTSIDE", host=host, port=port)


def test_an_address_that_works_is_not_explained(listening_port: int) -> None:
    assert explain_unreachable(bound(9092), told("127.0.0.1", listening_port)) is None


def test_a_name_that_does_not_resolve_is_told_with_the_fix() -> None:
    text = explain_unreachable(bound(9092), told("no-such-host.invalid", 9092))
    assert text is not None
    assert "no-such-host.invalid:9092" in text and "does not resolve" in text
    assert "advertised.listeners=OUTSIDE://" in text


def test_a_port_on_which_nobody_listens_is_told_with_the_fix(deaf_port: int) -> None:
    text = explain_unreachable(bound(9092), told("127.0.0.1", deaf_port))
    assert text is not None
    assert f"127.0.0.1:{deaf_port}" in text and "nobody answers" in text
    assert "advertised.listeners=OUTSIDE://127.0.0.1:9092" in text


def test_the_fix_of_a_name_that_does_not_resolve_names_the_address_and_port_that_are_bound() -> None:
    text = explain_unreachable(bound(9093, "10.1.2.3"), told("no-such-host.invalid", 9092))
    assert text is not None
    assert text.endswith("or 10.1.2.3>:9093")


def test_a_host_that_leads_elsewhere_is_not_advised_again(deaf_port: int) -> None:
    text = explain_unreachable(bound(deaf_port, "10.1.2.3"), told("127.0.0.1", deaf_port))
    assert text is not None
    assert text.endswith(f"or 10.1.2.3>:{deaf_port}")
