"""Scene 50: what acks=0, 1 and all are worth when the leader dies. Only the last promises anything."""

from functools import partial
from typing import Final

import pytest

from tests.chaos.checker import Verdict, judge
from tests.chaos.readers import read_all
from tests.chaos.writers import EXACTLY_ONCE, LEADER, NO_ANSWER, Guarantee, Writer, wait_for_progress
from tests.cluster.conftest import Report
from tests.cluster.faults import Fault, cut_from_peers, killed
from tests.cluster.load import IMPATIENT
from tests.cluster.site import Site
from tests.cluster.topics import NO_LEADER, PartitionState, Topics

GUARANTEES: Final = (NO_ANSWER, LEADER, EXACTLY_ONCE)
RECORDS_PER_SECOND: Final = 200


@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", [killed, cut_from_peers], ids=lambda fault: fault.__name__)
def test_scene_50_only_acks_all_keeps_what_it_acknowledged(
    fault: Fault,
    site: Site,
    topic_name: str,
    rounds: int,
    report: Report,
) -> None:
    names = [f"{topic_name}-{number}" for number, _ in enumerate(GUARANTEES)]
    for name in names:
        site.topics.create_on(name, [node.id for node in site.cluster.nodes])
    writers = [new_writer(site, name, guarantee) for name, guarantee in zip(names, GUARANTEES, strict=True)]
    for writer in writers:
        writer.start()
    for _ in range(rounds):
        wait_for_progress(writers)
        leader = site.leader(names[0])
        with fault(site, leader):
            others = ",".join(node.bootstrap_servers for node in site.cluster.nodes if node.id != leader)
            Topics(others).wait_until(names[0], partial(is_led_by_another, leader))
        for name in names:
            site.topics.wait_until(name, lambda state: len(state.isr) == 3)
    for name, writer in zip(names, writers, strict=True):
        verdict = judge([writer.stop()], read_all(site.bootstrap, name, [0]))
        if writer.guarantee is EXACTLY_ONCE:
            verdict.require_clean()
        report(f"{writer.guarantee.name}: {counted(verdict)}")


def is_led_by_another(leader: int, state: PartitionState) -> bool:
    return state.leader not in (leader, NO_LEADER)


def new_writer(site: Site, topic: str, guarantee: Guarantee) -> Writer:
    return Writer(
        bootstrap=site.bootstrap,
        topic=topic,
        partitions=[0],
        guarantee=guarantee,
        records_per_second=RECORDS_PER_SECOND,
        settings=IMPATIENT,
    )


def counted(verdict: Verdict) -> str:
    lost, absent = verdict.violations["lost"], verdict.absent
    return f"{verdict.sent} sent, {verdict.acknowledged} acknowledged, {lost} of them lost, {absent} others not there"
