"""A broker with little: few descriptors, no uvloop, connections that may not idle; and the embedded one among many files."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import ottla.testing
from benchmarks.probe import API_VERSIONS_REQUEST, connect, receive_frame

pytestmark = pytest.mark.needs_ottla

DESCRIPTORS = 256
TOO_FEW_DESCRIPTORS = 128
CROWD = 200
DESCRIPTORS_THAT_SELECT_KNOWS = 1_024
LARGE_VALUE = os.urandom(900_000)


def produce(bootstrap: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for value in values:
        producer.produce("t", value)
    assert producer.flush(20) == 0


def read(bootstrap: str, count: int) -> list[bytes | None]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False}
    consumer = Consumer({**settings, "fetch.wait.max.ms": 100})  # Well below the time that a connection may idle.
    consumer.assign([TopicPartition("t", 0, 0)])
    try:
        return [message.value() for message in consumer.consume(count, timeout=20)]
    finally:
        consumer.close()


def is_answered(connection: socket.socket) -> bool:
    try:
        connection.sendall(API_VERSIONS_REQUEST)
        return len(receive_frame(connection)) > 0
    except ConnectionError:
        return False


def command_with_descriptors(count: int, data_dir: Path) -> list[str]:
    serve = [sys.executable, "-m", "ottla.server", "up", "--data", str(data_dir / "data")]
    return ["/bin/sh", "-c", f'ulimit -n {count}; exec "$0" "$@"', *serve, "--host", "127.0.0.1", "--port", "0"]


@contextmanager
def broker_with_descriptors(count: int, data_dir: Path) -> Iterator[tuple[int, Path]]:
    """Its port and its log."""
    ready_read, ready_write = os.pipe()
    log_path = data_dir / "broker.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [*command_with_descriptors(count, data_dir), "--ready-fd", str(ready_write)],
            stdout=log,
            stderr=log,
            pass_fds=[ready_write],
        )
    os.close(ready_write)
    try:
        yield json.loads(os.read(ready_read, 4096))["port"], log_path
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ready_read)


def test_connections_are_capped_below_the_limit_of_descriptors(tmp_path: Path) -> None:
    """A crowd does not take the descriptors that segments need, and is not let in only to be ignored."""
    with broker_with_descriptors(DESCRIPTORS, tmp_path) as (port, log_path):
        with ExitStack() as stack:
            crowd = [stack.enter_context(connect(port)) for _ in range(CROWD)]
            answered = [connection for connection in crowd if is_answered(connection)]
            assert 0 < len(answered) <= DESCRIPTORS // 2
            for connection in answered[:10]:
                connection.close()
            produce(f"127.0.0.1:{port}", b"beside the crowd")
            assert read(f"127.0.0.1:{port}", 1) == [b"beside the crowd"]
        log = log_path.read_text()
    assert 0 < log.count("refusing connection") < CROWD // 2
    assert f"the limit of {DESCRIPTORS} open files" in log and "max.connections" not in log
    assert "cannot accept" not in log and "Traceback" not in log


def test_with_too_few_descriptors_a_broker_refuses_to_start(tmp_path: Path) -> None:
    """Rather than be ready and serve nobody."""
    command = command_with_descriptors(TOO_FEW_DESCRIPTORS, tmp_path)
    refused = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert refused.returncode == 2
    assert f"open files is {TOO_FEW_DESCRIPTORS}" in refused.stderr and "ulimit -n 4096" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_THAT_SELECT_KNOWS + 500
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(DESCRIPTORS_THAT_SELECT_KNOWS + 10)]
    yield
    for descriptor in opened:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_descriptors")
def test_the_embedded_broker_starts_in_a_process_with_many_files() -> None:
    with ottla.testing.broker() as broker:
        produce(broker.bootstrap_servers, b"one")
        broker.restart()
        assert read(broker.bootstrap_servers, 1) == [b"one"]


def test_an_idle_client_is_closed_and_comes_back() -> None:
    with ottla.testing.broker(config={"connections.max.idle.ms": 2_000}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": "all"})
        producer.produce("t", b"before")
        assert producer.flush(20) == 0
        with connect(broker.port) as later:  # Closed only after the producer's own, which fell silent before.
            assert is_answered(later)
            assert later.recv(1) == b""
        producer.produce("t", b"after")
        assert producer.flush(20) == 0
        assert read(broker.bootstrap_servers, 2) == [b"before", b"after"]


def test_without_uvloop_the_standard_loop_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = tmp_path / "asked"
    (tmp_path / "uvloop.py").write_text(f"open({str(asked)!r}, 'w').close()\nraise ImportError('not here')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with ottla.testing.broker() as broker:
        assert asked.exists()
        values = [LARGE_VALUE, b"small", *(LARGE_VALUE[number:] for number in range(20))]
        produce(broker.bootstrap_servers, *values)
        assert read(broker.bootstrap_servers, len(values)) == values
        broker.restart()  # Stopped by a signal and drained.
        assert read(broker.bootstrap_servers, len(values)) == values
        assert "stopped cleanly" in broker.log and "Traceback" not in broker.log
