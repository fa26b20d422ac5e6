"""The broker as a process: listeners, refusals at start, signals, `ottla serve`."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

import ottla.testing
from ottla.testing import BrokerFailed
from tests.conformance.ports import free_ports


def start(**arguments: Any) -> None:
    with ottla.testing.broker(**arguments):
        pass


def test_each_listener_is_told_its_own_address() -> None:
    inside, outside = free_ports(2)
    config = {
        "listeners": f"INSIDE://127.0.0.1:{inside},OUTSIDE://127.0.0.1:{outside}",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "advertised.listeners": f"INSIDE://127.0.0.1:{inside},OUTSIDE://localhost:{outside}",
    }
    with ottla.testing.broker(config=config):
        for port, host in ((inside, "127.0.0.1"), (outside, "localhost")):
            admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
            (broker,) = admin.list_topics(timeout=10).brokers.values()
            assert (broker.host, broker.port) == (host, port)


def test_a_directory_in_use_is_refused_with_the_reason(tmp_path: Path) -> None:
    with ottla.testing.broker(data_dir=tmp_path), pytest.raises(BrokerFailed, match="in use by another process"):
        start(data_dir=tmp_path)


def test_a_port_in_use_is_refused_with_the_reason() -> None:
    with ottla.testing.broker() as first, pytest.raises(BrokerFailed, match="is another broker running"):
        start(port=first.port)


def test_an_unknown_setting_is_refused_with_a_suggestion() -> None:
    with pytest.raises(BrokerFailed, match=r"did you mean num\.partitions"):
        start(config={"num.partition": 3})


def test_restart_keeps_port_data_and_node() -> None:
    with ottla.testing.broker() as broker:
        port, pid = broker.port, broker.pid
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": "all"})
        offsets: list[int] = []
        producer.produce("t", b"a", on_delivery=lambda error, message: offsets.append(message.offset()))
        assert producer.flush(20) == 0
        broker.kill()
        broker.restart()
        assert broker.port == port and broker.pid != pid
        producer.produce("t", b"b", on_delivery=lambda error, message: offsets.append(message.offset()))
        assert producer.flush(20) == 0
        assert offsets == [0, 1]


def test_serve_reads_a_file_and_the_environment(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    settings = tmp_path / "node.toml"
    settings.write_text(
        f'node.id = 7\nlisteners = "PLAINTEXT://127.0.0.1:{port}"\nlog.dirs = ["{tmp_path / "data"}"]\n'
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla.cli.main", "serve", str(settings)],
        env={**os.environ, "OTTLA_NUM_PARTITIONS": "4"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert f"127.0.0.1:{port}" in process.stdout.readline()
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
        assert list(admin.list_topics(timeout=10).brokers) == [7]
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
    assert "node.id=7" in (tmp_path / "data" / "meta.properties").read_text()
