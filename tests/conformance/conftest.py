"""Fixtures of the conformance suite: the broker under test, the clients, and the table of what ran.

The broker is Ottla in a process of its own. With OTTLA_CONFORMANCE_BOOTSTRAP=host:port the suite runs against that
broker instead: run against Apache Kafka, it shows that what the tests demand is what Kafka does. Tests that look into
the broker's directory then need OTTLA_CONFORMANCE_DATA_DIR too; those that start a broker of their own stay out.
"""

import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.conformance.client import Client
from tests.conformance.groups import Member
from tests.conformance.kafka_tools import Tools
from tests.conformance.registry import CLIENTS, start
from tests.conformance.transactions import Transactional, new_transactional_id
from tests.conformance.under_test import BrokerUnderTest, Clients, Keeper

if TYPE_CHECKING:
    from ottla.testing import Broker

FOREIGN_BOOTSTRAP = os.environ.get("OTTLA_CONFORMANCE_BOOTSTRAP")
FOREIGN_DATA_DIR = os.environ.get("OTTLA_CONFORMANCE_DATA_DIR")
NEEDS_DIRECTORY, NEEDS_OTTLA = "needs_directory", "needs_ottla"

# So that a test waits neither 3 s for each new group nor 6 s for each crashed member.
QUICK_GROUPS = {"group.initial.rebalance.delay.ms": 300, "group.min.session.timeout.ms": 1000}
# How often the broker looks for transactions that took too long: 10 s otherwise.
QUICK_TIME_OUTS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 500}

topic_numbers = itertools.count(1)
passed_by_client: Counter[str] = Counter()
failed_by_client: Counter[str] = Counter()
version_by_client: dict[str, str] = {}
measurements: list[str] = []


@pytest.fixture(scope="session")
def broker() -> Iterator[BrokerUnderTest]:
    if FOREIGN_BOOTSTRAP:
        yield BrokerUnderTest(
            bootstrap=FOREIGN_BOOTSTRAP, data_dir=Path(FOREIGN_DATA_DIR) if FOREIGN_DATA_DIR else None
        )
        return
    import ottla.testing

    with ottla.testing.broker(config=QUICK_GROUPS | QUICK_TIME_OUTS) as running:
        yield BrokerUnderTest(bootstrap=running.bootstrap_servers, data_dir=Path(running.data_dir))


@pytest.fixture(scope="session")
def data_dir(broker: BrokerUnderTest) -> Path:
    assert broker.data_dir is not None
    return broker.data_dir


@pytest.fixture(scope="module")
def mortal_broker() -> "Iterator[Broker]":
    """One to be killed, which looks for overdue transactions twice a second."""
    import ottla.testing

    config = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 500}
    with ottla.testing.broker(config=config) as broker:
        yield broker


@pytest.fixture(scope="module")
def reader(mortal_broker: "Broker") -> Iterator[Client]:
    """A client of the mortal broker that makes topics and looks."""
    with start("confluent-kafka", mortal_broker.bootstrap_servers) as client:
        yield client


@pytest.fixture(scope="session")
def clients(broker: BrokerUnderTest) -> Iterator[Clients]:
    started = Clients(broker.bootstrap)
    yield started
    started.close()


@pytest.fixture
def borrow(clients: Clients, request: pytest.FixtureRequest) -> Callable[[str], Client]:
    """A client by name, for tests of several clients together; the table counts the test for each of them."""

    def borrowed(name: str) -> Client:
        client = clients[name]
        request.node.user_properties.append(("client", (name, client.version)))
        return client

    return borrowed


@pytest.fixture
def client(borrow: Callable[[str], Client], request: pytest.FixtureRequest) -> Client:
    return borrow(request.param)


@pytest.fixture
def own_process(broker: BrokerUnderTest, request: pytest.FixtureRequest) -> Iterator[Callable[[str], Client]]:
    """A client in a process of the test's own, which the test may kill."""
    started: list[Client] = []

    def start_one(name: str) -> Client:
        client = start(name, broker.bootstrap)
        started.append(client)
        request.node.user_properties.append(("client", (name, client.version)))
        return client

    yield start_one
    for client in started:
        client.kill()


@pytest.fixture
def join() -> Iterator[Callable[..., Member]]:
    """`Member`, but those that are still in their groups leave at the end."""
    joined: list[Member] = []

    def join_one(client: Client, group: str, *topics: str, **settings: Any) -> Member:
        joined.append(Member(client, group, topics, **settings))
        return joined[-1]

    yield join_one
    for member in joined:
        member.leave()


@pytest.fixture
def transactional() -> Iterator[Callable[..., Transactional]]:
    """A transactional producer of a client, with an id of its own unless one is given; closed at the end."""
    opened: list[Transactional] = []

    def open_one(client: Client, transactional_id: str | None = None, **settings: Any) -> Transactional:
        opened.append(Transactional(client, transactional_id or new_transactional_id(), **settings))
        return opened[-1]

    yield open_one
    for producer in opened:
        producer.close()


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """A figure that the run shows at its end."""
    return lambda text: request.node.user_properties.append(("measured", text))


@pytest.fixture
def keeper(clients: Clients) -> Keeper:
    return Keeper(clients["confluent-kafka"])


@pytest.fixture
def tools(borrow: Callable[[str], Client], broker: BrokerUnderTest) -> Tools:
    return Tools(borrow("kafka-tools"), broker.bootstrap)


@pytest.fixture
def topic_name() -> str:
    return f"topic-{os.getpid()}-{next(topic_numbers)}"


@pytest.fixture
def topic(keeper: Keeper, topic_name: str) -> str:
    """A new topic of one partition."""
    keeper.create(topic_name)
    return topic_name


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{NEEDS_DIRECTORY}: looks into the broker's data directory")
    config.addinivalue_line("markers", f"{NEEDS_OTTLA}: starts brokers of its own, or is about Ottla alone")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Against a foreign broker, leave out what only Ottla's process or an unseen directory could answer."""
    if not FOREIGN_BOOTSTRAP:
        return
    impossible = {NEEDS_OTTLA} if FOREIGN_DATA_DIR else {NEEDS_OTTLA, NEEDS_DIRECTORY}
    left_out = [item for item in items if any(item.get_closest_marker(name) for name in impossible)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call":
        measurements.extend(cast("str", value) for name, value in report.user_properties if name == "measured")
    named = dict(cast("tuple[str, str]", value) for name, value in report.user_properties if name == "client")
    version_by_client.update(named)
    if report.when == "call" and report.passed:
        passed_by_client.update(named.keys())
    elif report.failed:
        failed_by_client.update(named.keys())


def whole_suite_ran(config: pytest.Config) -> bool:
    chosen = [Path(str(argument).split("::")[0]) for argument in config.args]
    narrowed = config.option.keyword or config.option.markexpr or getattr(config.option, "lf", False)
    return not narrowed and all(path.is_dir() for path in chosen)


def idle_clients() -> list[str]:
    return [name for name in CLIENTS if not passed_by_client[name]]


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A named client that ran nothing fails the whole run, even when every test that did run passed."""
    if (
        idle_clients()
        and exitstatus == pytest.ExitCode.OK
        and whole_suite_ran(session.config)
        and not is_worker(session.config)
    ):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")  # Set by pytest-xdist; only its controller sees every report.


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    terminalreporter.section("clients")
    rows = [("client", "version", "passed", "failed")]
    for name in CLIENTS:
        version = version_by_client.get(name, "DID NOT RUN")
        rows.append((name, version, str(passed_by_client[name]), str(failed_by_client[name])))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        terminalreporter.write_line("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
    if measurements:
        terminalreporter.section("measured")
    for measurement in measurements:
        terminalreporter.write_line(measurement)
    if idle_clients() and whole_suite_ran(config):
        terminalreporter.write_line(f"FAILED: no test passed with {', '.join(idle_clients())}", red=True)
