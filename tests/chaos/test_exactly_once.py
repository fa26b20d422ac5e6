"""Consume-transform-produce (transform_run.py) while the broker and the workers are killed, stopped and suspended."""

import random
from collections.abc import Callable

import pytest

from tests.chaos.conftest import CreateTopic, NewCrew
from tests.chaos.faults import Faults
from tests.chaos.subject import Subject
from tests.chaos.transform_run import PARTITIONS, Transformation
from tests.chaos.transform_worker import INPUT, OUTPUTS


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("is_group", [False, True], ids=["an id per partition", "a group"])
def test_every_input_is_transformed_exactly_once(
    is_group: bool,
    subject: Subject,
    chaos_seconds: float,
    chance: random.Random,
    create_topic: CreateTopic,
    new_crew: NewCrew,
    report: Callable[[str], None],
) -> None:
    bootstrap = subject.bootstrap_servers
    for topic in (INPUT, *OUTPUTS):
        create_topic(bootstrap, topic, partitions=len(PARTITIONS), config={"segment.bytes": 1 << 20})
    crew = new_crew(
        "tests.chaos.transform_worker",
        size=len(PARTITIONS),
        bootstrap=bootstrap,
        partition_count=len(PARTITIONS),
        is_group=is_group,
    )
    run = Transformation(bootstrap, crew)
    faults = Faults(subject, crew, chance)
    faults.go_on_for(chaos_seconds)
    verdict = run.finish()
    subject.require_untroubled()
    report(f"{faults.summary}; {verdict.summary}; workers ended: {dict(crew.exits)}")
