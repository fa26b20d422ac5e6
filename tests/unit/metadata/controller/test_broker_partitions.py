"""Whose logs are to be compared, and what a broker alone does with its partitions."""

import pytest

from ottla.metadata.controller.broker_partitions import is_alone, plan_log_comparison, plan_new_epochs
from ottla.metadata.controller.elections import decide_elect_where_leaderless
from ottla.metadata.controller.electorate import NO_STATIC_CONFIGS, LogEnd
from tests.unit.metadata.cluster import (
    broker_record,
    image_of,
    orders,
    partition_of,
    replay,
    shown,
    topic_records,
)

NOBODY_LEFT = {"leader": -1, "isr": [], "min_isr": 2}


def cluster(fenced, **facts):
    return image_of(*orders((1, 2, 3), **facts), *(broker_record(one, fenced=True) for one in fenced), brokers=3)


def compared(image):
    return [str(ref) for ref in plan_log_comparison(image)]


def test_logs_are_compared_once_the_last_of_the_suspects_is_back():
    facts = {**NOBODY_LEFT, "last_known_elr": [1, 2]}
    assert compared(cluster([3], **facts)) == ["orders-0"]
    assert compared(cluster([1], **facts)) == []
    assert compared(cluster([1, 2], **facts)) == []


@pytest.mark.parametrize(
    "facts",
    [
        {**NOBODY_LEFT, "last_known_elr": [1]},
        {**NOBODY_LEFT, "last_known_elr": [1, 2], "eligible_leader_replicas": [3]},
        {"min_isr": 2, "isr": [3], "leader": 3, "last_known_elr": [1, 2]},
    ],
    ids=["only one", "somebody is eligible", "somebody leads"],
)
def test_no_log_is_compared_where_nothing_hangs_on_it(facts):
    assert compared(cluster([], **facts)) == []


@pytest.mark.parametrize(
    ("ends", "leader"),
    [
        ({1: LogEnd(3, 9), 2: LogEnd(3, 8)}, "1"),
        ({1: LogEnd(3, 9), 2: LogEnd(4, 8)}, "2"),
        ({2: LogEnd(0, 1)}, "-"),
    ],
    ids=["longer", "newer", "one is silent"],
)
def test_the_longest_log_leads_once_all_are_known(ends, leader):
    image = cluster([], **NOBODY_LEFT, last_known_elr=[2, 1])
    (ref,) = plan_log_comparison(image)
    log_ends = {(ref.topic.id, ref.number): ends}
    decision = decide_elect_where_leaderless(image, static_configs=NO_STATIC_CONFIGS, log_ends=log_ends)
    replay(image, *decision.records)
    assert shown(image) == f"{leader} | {leader} | -"


def test_a_broker_alone_starts_an_epoch_in_what_it_leads():
    image = image_of(*topic_records("orders"), *topic_records("bills", number=2, replicas=(2,)))
    assert is_alone(image, 1)
    replay(image, *plan_new_epochs(image, 1))
    assert partition_of(image).leader_epoch == 1
    assert partition_of(image, "bills").leader_epoch == 0


def test_nobody_is_alone_while_another_is_registered():
    assert not is_alone(image_of(broker_record(2, fenced=True)), 1)
