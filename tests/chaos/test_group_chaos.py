"""A group at work (group_run.py) while its members and its broker are killed, stopped and suspended at random."""

import random
from collections.abc import Callable
from typing import Final

import pytest

from tests.chaos.conftest import CreateTopic, NewCrew
from tests.chaos.faults import Faults
from tests.chaos.group_member import TOPIC
from tests.chaos.group_run import MEMBERS, PARTITIONS, GroupRun
from tests.chaos.subject import Subject

CHAOS_SECONDS_MAX: Final = 60.0


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(("strategy", "is_static"), [("cooperative-sticky", False), ("range", False), ("range", True)])
def test_a_harmed_group_comes_to_rest(
    strategy: str,
    is_static: bool,
    subject: Subject,
    chaos_seconds: float,
    chance: random.Random,
    create_topic: CreateTopic,
    new_crew: NewCrew,
    report: Callable[[str], None],
) -> None:
    bootstrap = subject.bootstrap_servers
    create_topic(bootstrap, TOPIC, partitions=len(PARTITIONS))
    crew = new_crew(
        "tests.chaos.group_member", size=MEMBERS, bootstrap=bootstrap, strategy=strategy, is_static=is_static
    )
    run = GroupRun(bootstrap, crew)
    faults = Faults(subject, crew, chance)
    faults.go_on_for(min(chaos_seconds, CHAOS_SECONDS_MAX))
    verdict = run.finish()
    subject.require_untroubled()
    report(f"{faults.summary}; {verdict.summary}; members ended: {dict(crew.exits)}")
