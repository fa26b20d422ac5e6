"""Fixtures of the chaos suite: how long to run, topics to run on, and a table of figures at the end.

`OTTLA_CHAOS_ROUNDS` is the number of faults (kills, flips, attack seconds) a test provokes: a few by default, which is
the smoke test; `make chaos` asks for fifty. `OTTLA_CHAOS_MINUTES` is how long those last that harm clients and broker in
turns; `OTTLA_CHAOS_SUBJECT=cluster` does it to three nodes, `kafka` to Apache Kafka. `OTTLA_CHAOS_SEED` repeats the random
choices of a run; the moments still differ, for they are the machine's.
"""

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.testing import Broker
from tests.chaos.brokers import outside_ephemeral_ports
from tests.chaos.cluster_subject import ClusterSubject
from tests.chaos.crew import Crew
from tests.chaos.small_disk import FILE_SYSTEMS, mounted
from tests.chaos.subject import Subject, subject_under_test
from tests.chaos.writers import QUIET, abandon_all

# Taken out of the environment: a broker that is started from here would read OTTLA_* as settings of its own.
ROUNDS: Final = int(os.environ.pop("OTTLA_CHAOS_ROUNDS", "3"))
MINUTES: Final = float(os.environ.pop("OTTLA_CHAOS_MINUTES", "0.3"))
SUBJECT: Final = os.environ.pop("OTTLA_CHAOS_SUBJECT", "ottla")
SEED: Final = int(os.environ.pop("OTTLA_CHAOS_SEED", "0")) or random.SystemRandom().getrandbits(32)
LOG_LINES_SHOWN: Final = 60
DEFAULT_REPLICATION: Final = -1  # One copy on one node, three on three.
SMALL_DISK_BYTES: Final = 80 << 20
_figures: list[tuple[str, str]] = []


@pytest.fixture
def rounds() -> int:
    return ROUNDS


@pytest.fixture
def chaos_seconds() -> float:
    return MINUTES * 60


@pytest.fixture
def subject(tmp_path: Path, port: int) -> Iterator[Subject]:
    config = {"group.initial.rebalance.delay.ms": "0"}
    with subject_under_test(SUBJECT, directory=tmp_path / "broker", port=port, config=config) as running:
        yield running


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    """Random choices of this test, from the run's seed."""
    return random.Random(f"{SEED} {request.node.name}")


@pytest.fixture
def port(chance: random.Random) -> int:
    return outside_ephemeral_ports(chance)


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Adds a line to the table at the end of the run."""
    return lambda figure: _figures.append((request.node.name, figure))


@pytest.fixture(autouse=True)
def no_writer_stays() -> Iterator[None]:
    yield
    abandon_all()


NewCrew = Callable[..., Crew]


@pytest.fixture
def new_crew(tmp_path: Path) -> Iterator[NewCrew]:
    crews: list[Crew] = []

    def new(module: str, *, size: int, **settings: Any) -> Crew:
        directory = tmp_path / "crew"
        directory.mkdir()
        crews.append(Crew(module, size=size, directory=directory, settings=settings))
        return crews[-1]

    yield new
    for crew in crews:
        crew.discard()


CreateTopic = Callable[..., None]


@pytest.fixture
def create_topic() -> CreateTopic:
    def create(bootstrap: str, topic: str, *, partitions: int = 1, config: Mapping[str, object] | None = None) -> None:
        settings = {name: str(value) for name, value in (config or {}).items()}
        admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
        created = admin.create_topics(
            [NewTopic(topic, partitions, DEFAULT_REPLICATION, config=settings)], request_timeout=20
        )
        created[topic].result()

    return create


@pytest.fixture(params=FILE_SYSTEMS)
def small_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", kind=request.param, size_bytes=SMALL_DISK_BYTES) as path:
        yield path


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Function) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure comes with the end of the broker's log; of a cluster, the logs and what its clients wrote are kept."""
    outcome = yield
    broker, subject = item.funcargs.get("broker"), item.funcargs.get("subject")
    if outcome.failed and isinstance(broker, Broker):
        outcome.sections.append(("broker's log", "\n".join(broker.log.splitlines()[-LOG_LINES_SHOWN:])))
    if outcome.failed and isinstance(subject, ClusterSubject):
        directory = Path(tempfile.mkdtemp(prefix="ottla-failed-"))
        for name, log in subject.logs.items():
            (directory / name).write_text(log)
        shutil.copytree(item.funcargs["tmp_path"], directory / "clients")
        outcome.sections.append(("kept", str(directory)))
    return outcome


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section(f"chaos: {ROUNDS} rounds, OTTLA_CHAOS_SEED={SEED}")
    width = max((len(name) for name, _ in _figures), default=0)
    for name, figure in _figures:
        terminalreporter.write_line(f"{name.ljust(width)}  {figure}")
