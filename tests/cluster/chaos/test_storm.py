"""Faults of every kind at random, some at the same time, no rest between them, while everybody works.

An idempotent writer with a reader, a group, and workers that transform exactly once share the cluster. Afterwards it is
left in peace, must take up work again, and every history must be clean.
"""

import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import pytest

from tests.chaos.group_member import TOPIC
from tests.chaos.group_run import PARTITIONS as GROUP_PARTITIONS
from tests.chaos.group_run import GroupRun
from tests.chaos.transform_run import PARTITIONS, Transformation
from tests.chaos.transform_worker import INPUT, OUTPUTS
from tests.chaos.writers import abandon_all
from tests.cluster.chaos.conftest import NewCrew
from tests.cluster.conftest import Report, new_site
from tests.cluster.faults import (
    Fault,
    all_killed,
    all_paused,
    cut_from_one,
    cut_from_peers,
    deaf,
    isolated,
    killed,
    mute,
    paused,
    slow,
    stopped,
)
from tests.cluster.load import IMPATIENT, Load
from tests.cluster.site import Site

FAULTS_PER_ROUND: Final = 12
CALM_SECONDS: Final = (0.0, 3.0)
FAULT_SECONDS: Final = (0.2, 6.0)
RECORDS_PER_SECOND: Final = 100
OF_NETWORK: Final[tuple[Fault, ...]] = (isolated, cut_from_peers, mute, deaf, cut_from_one, slow)
OF_PROCESS: Final[tuple[Fault, ...]] = (killed, killed, stopped, paused, all_killed, all_paused)


@pytest.fixture
def site() -> Iterator[Site]:
    with new_site() as own:
        yield own
        abandon_all()


@pytest.mark.timeout(7_200)
def test_everything_at_once(
    site: Site, new_crew: NewCrew, chance: random.Random, topic_name: str, rounds: int, report: Report
) -> None:
    for topic in (INPUT, *OUTPUTS):
        site.topics.create(topic, partitions=len(PARTITIONS))
    site.topics.create(TOPIC, partitions=len(GROUP_PARTITIONS))
    site.topics.create(topic_name, partitions=3)
    members = new_crew(
        "tests.chaos.group_member",
        size=2,
        bootstrap=site.bootstrap,
        strategy="cooperative-sticky",
        is_static=False,
    )
    workers = new_crew(
        "tests.chaos.transform_worker",
        size=len(PARTITIONS),
        bootstrap=site.bootstrap,
        partition_count=len(PARTITIONS),
        is_group=False,
    )
    group = GroupRun(site.bootstrap, members, records_per_second=RECORDS_PER_SECOND)
    transformation = Transformation(site.bootstrap, workers, records_per_second=RECORDS_PER_SECOND)
    done: Counter[str] = Counter()
    with Load(site.bootstrap, topic_name, partitions=3, settings=IMPATIENT) as load:
        for _ in range(FAULTS_PER_ROUND * rounds):
            befall(site, chance, done)
            members.tend()
            workers.tend()
        site.heal()
        load.wait_for(300)
    report(", ".join(f"{name} × {count}" for name, count in sorted(done.items())))
    report(load.require_clean())
    report(f"group: {group.finish().summary}")
    report(f"transactions: {transformation.finish().summary}")


def befall(site: Site, chance: random.Random, done: Counter[str]) -> None:
    """One fault of a process, or of the network, or one of each on two nodes."""
    time.sleep(chance.uniform(*CALM_SECONDS))
    chosen = chance.choice([[chance.choice(OF_PROCESS)], [chance.choice(OF_NETWORK)]] * 2 + [both(chance)])
    with ExitStack() as stack:
        for fault in chosen:
            stack.enter_context(fault(site, chance.choice(site.cluster.nodes).id))
            done[fault.__name__] += 1
        time.sleep(chance.uniform(*FAULT_SECONDS))


def both(chance: random.Random) -> list[Fault]:
    """Of two nodes at once. Nothing is started while links are cut: it might not find a majority."""
    return [chance.choice(OF_NETWORK), paused]
