"""One broker, and one Spark session with the official connector, in a process and an environment of its own."""

import itertools
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla.testing
from ottla.client import Admin
from ottla.testing import Broker

CONNECTOR = Path(__file__).parents[2] / ".tools" / "spark-connector"

topic_numbers = itertools.count(1)


class SparkSessionProcess:
    """`session.call("read", connector="kafka", …)`: see session.py."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def call(self, name: str, **arguments: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"name": name, "arguments": arguments}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer["error"]
        return answer["result"]


@pytest.fixture(scope="session")
def session() -> Iterator[SparkSessionProcess]:
    jars = ",".join(map(str, sorted((CONNECTOR / "jars").glob("*.jar"))))
    assert jars, "run `make conformance-spark`, which fetches the connector"
    command = [str(CONNECTOR / "venv" / "bin" / "python"), str(Path(__file__).with_name("session.py")), jars]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield SparkSessionProcess(process)
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with ottla.testing.broker() as started:
        yield started


@pytest.fixture
def new_topic(broker: Broker) -> Callable[[int], str]:
    def create(partitions: int) -> str:
        name = f"topic-{next(topic_numbers)}"
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topic(name, partitions)
        return name

    return create
