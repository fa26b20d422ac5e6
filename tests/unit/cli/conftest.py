"""The command line in this process, and librdkafka's mock cluster for what it can serve: producing and reading."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from ottla.cli.app import app

Run = Callable[..., Any]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run("topic", "list", input=…)` gives exit_code, stdout and stderr. The caller's environment is no part of it."""
    monkeypatch.delenv("OTTLA_BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")

    def invoke(*arguments: str, input: str | bytes | None = None) -> Any:
        return CliRunner().invoke(app, list(arguments), input=input, prog_name="ottla", catch_exceptions=False)

    return invoke


@pytest.fixture(scope="session")
def mock_cluster() -> Iterator[str]:
    """Bootstrap address of one mock broker; its topics have four partitions and appear when they are asked for."""
    owner = Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 1, "log_level": 0})
    [broker] = owner.list_topics(timeout=10).brokers.values()
    yield f"{broker.host}:{broker.port}"
    owner.flush(0)
