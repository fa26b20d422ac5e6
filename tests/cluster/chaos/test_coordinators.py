"""Faults on the coordinators, one after the other, while a group reads and while workers transform exactly once."""

import time
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from tests.chaos.brokers import wait_until
from tests.chaos.crew import Crew
from tests.chaos.group_member import GROUP as MEMBERS_GROUP
from tests.chaos.group_member import TOPIC
from tests.chaos.group_run import PARTITIONS as GROUP_PARTITIONS
from tests.chaos.group_run import GroupRun
from tests.chaos.transform_run import PARTITIONS, Transformation
from tests.chaos.transform_worker import INPUT, OUTPUTS
from tests.chaos.writers import abandon_all
from tests.cluster.chaos.conftest import NewCrew
from tests.cluster.conftest import Report, new_site
from tests.cluster.faults import Fault, cut_from_peers, isolated, killed, paused, stopped
from tests.cluster.site import Site
from tests.cluster.stall import Stall

FAULTS: Final[tuple[Fault, ...]] = (killed, stopped, paused, isolated, cut_from_peers)
FAULT_SECONDS: Final = 8.0
PROGRESS_SECONDS_MAX: Final = 60.0
RECORDS_PER_SECOND: Final = 100
MEMBERS: Final = 3


@pytest.fixture
def site() -> Iterator[Site]:
    """A cluster for each test: groups, topics and transactional ids have fixed names."""
    with new_site() as own:
        yield own
        abandon_all()


def harm(
    site: Site, crew: Crew, target: Callable[[], int], count: Callable[[], int], *, rounds: int, report: Report
) -> None:
    """Every fault on whoever `target` names; a line for each with how long `count` stood still."""
    for fault in FAULTS * rounds:
        wait_for_progress(crew, count)
        node_id = target()
        with Stall(count) as stall:
            with fault(site, node_id):
                time.sleep(FAULT_SECONDS)
            wait_for_progress(crew, count)
        report(f"{fault.__name__}: longest unavailability {stall.longest_ms:.0f} ms")


def wait_for_progress(crew: Crew, count: Callable[[], int]) -> None:
    wanted = count() + RECORDS_PER_SECOND

    def is_there() -> bool:
        crew.tend()
        return count() >= wanted

    try:
        wait_until(is_there, "clients make progress", seconds=PROGRESS_SECONDS_MAX)
    except AssertionError as failure:
        raise AssertionError(f"{failure}\n{crew.last_words}") from None


@pytest.mark.timeout(3_600)
def test_a_group_outlives_its_coordinator(site: Site, new_crew: NewCrew, rounds: int, report: Report) -> None:
    site.topics.create(TOPIC, partitions=len(GROUP_PARTITIONS))
    crew = new_crew(
        "tests.chaos.group_member",
        size=MEMBERS,
        bootstrap=site.bootstrap,
        strategy="cooperative-sticky",
        is_static=False,
    )
    run = GroupRun(site.bootstrap, crew, records_per_second=RECORDS_PER_SECOND)
    harm(
        site,
        crew,
        lambda: site.group_coordinator(MEMBERS_GROUP),
        lambda: run.committed_count,
        rounds=rounds,
        report=report,
    )
    report(run.finish().summary)


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("is_group", [False, True], ids=["an id per partition", "a group"])
def test_exactly_once_outlives_the_transaction_coordinator(
    is_group: bool, site: Site, new_crew: NewCrew, rounds: int, report: Report
) -> None:
    for topic in (INPUT, *OUTPUTS):
        site.topics.create(topic, partitions=len(PARTITIONS))
    crew = new_crew(
        "tests.chaos.transform_worker",
        size=len(PARTITIONS),
        bootstrap=site.bootstrap,
        partition_count=len(PARTITIONS),
        is_group=is_group,
    )
    run = Transformation(site.bootstrap, crew, records_per_second=RECORDS_PER_SECOND)
    harm(
        site,
        crew,
        lambda: site.transaction_coordinator("worker-0"),
        lambda: run.seen_count,
        rounds=rounds,
        report=report,
    )
    report(run.finish().summary)
