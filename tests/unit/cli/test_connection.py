"""What a command says when nobody is there."""

import socket

import pytest

from ottla.cli.connection import Connection, connected, knock
from ottla.cli.errors import UNREACHABLE, Failure
from tests.unit.cli.conftest import Run


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
    return port


def test_nobody_on_this_machine_is_told_how_to_start_a_broker(closed_port: int) -> None:
    connection = Connection(servers=f"localhost:{closed_port},127.0.0.1:{closed_port}")
    with pytest.raises(Failure, match=r"no broker at localhost:.*start one with `ottla up`") as caught:
        knock(connection)
    assert caught.value.exit_code == UNREACHABLE


def test_nobody_elsewhere_is_told_to_check_the_address() -> None:
    with pytest.raises(Failure, match="check --bootstrap-server") as caught:
        knock(Connection(servers="no-such-host.invalid:9092"))
    assert caught.value.exit_code == UNREACHABLE


def test_one_listening_address_of_several_is_enough(closed_port: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        knock(Connection(servers=f"127.0.0.1:{closed_port},127.0.0.1:{listener.getsockname()[1]}"))


def test_an_unknown_client_setting_is_a_failure_not_a_traceback() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connection = Connection(servers=f"127.0.0.1:{listener.getsockname()[1]}", properties={"no.such.key": "1"})
        with pytest.raises(Failure, match=r"no\.such\.key"), connected(connection):
            connection.admin()


def test_a_name_that_no_resolver_takes_is_nobody_there(run: Run) -> None:
    result = run("topic", "list", "-b", "a..b:9092")
    assert result.exit_code == UNREACHABLE
    assert "no broker at a..b:9092" in result.stderr
