"""Three real nodes for each module, put together again after each test, and a table of figures at the end.

As root each node has a network namespace of its own, so that links can be cut; without, nodes share the loopback
interface and tests that cut are skipped. `OTTLA_CHAOS_ROUNDS` is how often a fault is provoked (make chaos-cluster).
"""

import itertools
import os
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

import ottla.testing
from tests.chaos.brokers import require_untroubled
from tests.chaos.writers import abandon_all
from tests.cluster.network import Network, NoNetwork, network
from tests.cluster.site import Site
from tests.cluster.topics import Topics

# Taken out of the environment: a broker that is started from here would read OTTLA_* as settings of its own.
ROUNDS: Final = int(os.environ.pop("OTTLA_CHAOS_ROUNDS", "1"))
CONFIG: Final[Mapping[str, object]] = {
    "min.insync.replicas": 2,
    "broker.session.timeout.ms": 3_000,
    "broker.heartbeat.interval.ms": 500,
    "replica.lag.time.max.ms": 3_000,
    "group.initial.rebalance.delay.ms": 0,
}
LOG_LINES_SHOWN: Final = 60
_numbers = itertools.count(1)
_figures: list[tuple[str, str]] = []


@contextmanager
def new_site(
    *,
    nodes: int = 3,
    config: Mapping[str, object] | None = None,
    configs: Mapping[int, Mapping[str, object]] | None = None,
) -> Iterator[Site]:
    node_ids = range(1, nodes + 1)
    with ExitStack() as stack:
        made: Network | None = None
        with suppress(NoNetwork):
            made = stack.enter_context(network(node_ids))
        machines = {node_id: made.machine(node_id) for node_id in node_ids} if made is not None else None
        settings = {**CONFIG, **(config or {})}
        cluster = stack.enter_context(
            ottla.testing.cluster(nodes=nodes, config=settings, configs=configs, machines=machines)
        )
        yield Site(cluster=cluster, topics=Topics(cluster.bootstrap_servers), maybe_network=made)


@pytest.fixture(scope="module")
def standing_site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """A module that wants it otherwise says so: NODES = 5, SETTINGS of all of them, SETTINGS_OF_NODE by id."""
    wish = request.module
    nodes, config = getattr(wish, "NODES", 3), getattr(wish, "SETTINGS", None)
    with new_site(nodes=nodes, config=config, configs=getattr(wish, "SETTINGS_OF_NODE", None)) as site:
        yield site


@pytest.fixture
def site(standing_site: Site) -> Iterator[Site]:
    yield standing_site
    abandon_all()
    standing_site.heal()


@pytest.fixture
def cluster(site: Site) -> ottla.testing.Cluster:
    return site.cluster


@pytest.fixture
def topics(site: Site) -> Topics:
    return site.topics


@pytest.fixture
def topic_name() -> str:
    return f"topic-{next(_numbers)}"


@pytest.fixture
def rounds() -> int:
    return ROUNDS


Report = Callable[[str], None]


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Report:
    """Adds a line to the table at the end of the run."""
    return lambda figure: _figures.append((request.node.name, figure))


@pytest.fixture(autouse=True)
def no_bug_shows_in_a_log(site: Site) -> Iterator[None]:
    yield
    for node in site.cluster.nodes:
        require_untroubled(node)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Function) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure comes with the end of every node's log, and the whole logs are kept."""
    outcome = yield
    site = item.funcargs.get("site")
    if outcome.failed and isinstance(site, Site):
        directory = Path(tempfile.mkdtemp(prefix="ottla-failed-"))
        for node in site.cluster.nodes:
            (directory / f"node-{node.id}.log").write_text(node.log)
            lines = node.log.splitlines()[-LOG_LINES_SHOWN:]
            outcome.sections.append((f"log of node {node.id}, all of it in {directory}", "\n".join(lines)))
    return outcome


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("what happened")
    width = max((len(name) for name, _ in _figures), default=0)
    for name, figure in _figures:
        terminalreporter.write_line(f"{name.ljust(width)}  {figure}")
