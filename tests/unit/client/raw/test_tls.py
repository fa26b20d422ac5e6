"""TLS and its mistakes: connections to a door that encrypts, with librdkafka's mock cluster behind it."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ottla.client import ClientError
from ottla.client.raw.address import Address, parse_address
from ottla.client.raw.connection import NO_CONNECTION, NOT_TRUSTED, Connection
from ottla.client.raw.security import PLAINTEXT, Security, Tls
from tests.certificates import Authority
from tests.unit.client.conftest import MockCluster


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server_context(authority: Authority) -> ssl.SSLContext:
    issued = authority.issue("broker", "IP:127.0.0.1")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.certificate))
    context.load_cert_chain(issued.certificate, issued.key)
    return context


@contextmanager
def door(context: ssl.SSLContext, behind: Address) -> Iterator[Address]:
    """One connection, decrypted."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            accepted, _ = listener.accept()
            client = context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)
            try:
                client.do_handshake()
            except OSError:
                turn_away(socket.socket(fileno=client.detach()))
                return
            with client, socket.create_connection(behind) as broker:
                passing = threading.Thread(target=pass_on, args=(broker, client))
                passing.start()
                pass_on(client, broker)
                passing.join()

        thread = threading.Thread(target=serve)
        thread.start()
        yield Address(*listener.getsockname())
        thread.join()


def turn_away(client: socket.socket) -> None:
    """What was said last is still to be read at the other end: a socket closed with something unread would take it back."""
    with client, suppress(OSError):
        client.shutdown(socket.SHUT_WR)
        while client.recv(65536):
            pass


def pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def abilities(address: Address, security: Security) -> int:
    """How many APIs the broker at the other end has."""
    with Connection(address, client_id="test", timeout_s=10, security=security) as connection:
        return len(connection.abilities.api_keys)


def behind(mock_cluster: MockCluster) -> Address:
    return parse_address(mock_cluster.bootstrap_servers.split(",")[0])


@pytest.mark.parametrize("is_text", [False, True], ids=["file", "text"])
def test_a_broker_that_is_vouched_for(
    mock_cluster: MockCluster, authority: Authority, server_context: ssl.SSLContext, is_text: bool
) -> None:
    ca = authority.certificate.read_text() if is_text else str(authority.certificate)
    with door(server_context, behind(mock_cluster)) as address:
        assert abilities(address, Security(tls=Tls(ca=ca))) > 10


@pytest.mark.parametrize("form", ["files", "one file", "texts"])
def test_a_broker_that_wants_a_certificate_of_ours(
    mock_cluster: MockCluster, authority: Authority, form: str, server_context: ssl.SSLContext
) -> None:
    ours = authority.issue("client", password="sesame")
    forms = {
        "files": (str(ours.certificate), str(ours.key)),
        "one file": (str(ours.in_one_file()), ""),
        "texts": (ours.certificate.read_text(), ours.key.read_text()),
    }
    certificate, key = forms[form]
    tls = Tls(ca=str(authority.certificate), certificate=certificate, key=key, key_password="sesame")
    server_context.verify_mode = ssl.CERT_REQUIRED
    try:
        with door(server_context, behind(mock_cluster)) as address:
            assert abilities(address, Security(tls=tls)) > 10
        with door(server_context, behind(mock_cluster)) as address, pytest.raises(ClientError) as caught:
            abilities(address, Security(tls=Tls(ca=str(authority.certificate))))
    finally:
        server_context.verify_mode = ssl.CERT_NONE
    assert caught.value.code == NOT_TRUSTED and "ssl.certificate.location" in str(caught.value)


def test_a_broker_that_nobody_vouches_for(mock_cluster: MockCluster, server_context: ssl.SSLContext) -> None:
    with door(server_context, behind(mock_cluster)) as address, pytest.raises(ClientError) as caught:
        abilities(address, Security(tls=Tls()))
    assert caught.value.code == NOT_TRUSTED and "ssl.ca.location" in str(caught.value)
    with door(server_context, behind(mock_cluster)) as address:
        assert abilities(address, Security(tls=Tls(checks_certificate=False))) > 10


def test_a_certificate_of_another_host(
    mock_cluster: MockCluster, authority: Authority, server_context: ssl.SSLContext
) -> None:
    ca = str(authority.certificate)
    with door(server_context, behind(mock_cluster)) as address, pytest.raises(ClientError) as caught:
        abilities(Address("localhost", address.port), Security(tls=Tls(ca=ca)))
    assert caught.value.code == NOT_TRUSTED and "ssl.endpoint.identification.algorithm=none" in str(caught.value)
    with door(server_context, behind(mock_cluster)) as address:
        assert abilities(Address("localhost", address.port), Security(tls=Tls(ca=ca, checks_host=False))) > 10


def test_plain_text_to_a_listener_of_tls(mock_cluster: MockCluster, server_context: ssl.SSLContext) -> None:
    with door(server_context, behind(mock_cluster)) as address, pytest.raises(ClientError) as caught:
        abilities(address, PLAINTEXT)
    assert caught.value.code == NO_CONNECTION
    assert "something else than security.protocol=PLAINTEXT" in str(caught.value)


@pytest.mark.parametrize(
    "wrong", [Tls(ca="no/such.pem"), Tls(ca="-----BEGIN nonsense"), Tls(certificate="no/such.pem")]
)
def test_files_that_are_none(wrong: Tls, mock_cluster: MockCluster) -> None:
    with pytest.raises(ClientError) as caught:
        abilities(behind(mock_cluster), Security(tls=wrong))
    assert caught.value.code == NOT_TRUSTED and "given for TLS" in str(caught.value)


def test_a_key_whose_password_is_missing(mock_cluster: MockCluster, authority: Authority, tmp_path: Path) -> None:
    """OpenSSL would ask for it at the terminal."""
    ours = authority.issue("locked", password="sesame")
    tls = Tls(certificate=str(ours.certificate), key=str(ours.key))
    with pytest.raises(ClientError, match="given for TLS"):
        abilities(behind(mock_cluster), Security(tls=tls))
