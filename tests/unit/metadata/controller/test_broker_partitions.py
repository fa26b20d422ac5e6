"""Whose logs are to be compared before a broker is unfenced."""

import pytest

from ottla.metadata.controller.broker_partitions import plan_log_comparison
from ottla.metadata.controller.brokers import decide_unfence_broker
from ottla.metadata.controller.electorate import LogEnd
from tests.unit.metadata.cluster import apply, broker_record, image_of, orders, shown

NOBODY_LEFT = {"leader": -1, "isr": [], "min_isr": 2}


def cluster(fenced, **facts):
    return image_of(*orders((1, 2, 3), **facts), *(broker_record(one, fenced=True) for one in fenced), brokers=3)


def compared(image, broker_id):
    return [str(ref) for ref in plan_log_comparison(image, broker_id)]


def test_logs_are_compared_when_the_last_of_the_suspects_comes_back():
    facts = {**NOBODY_LEFT, "last_known_elr": [1, 2]}
    assert compared(cluster([1], **facts), 1) == ["orders-0"]
    assert compared(cluster([1, 2], **facts), 1) == []
    assert compared(cluster([], **facts), -1) == ["orders-0"]


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
    assert compared(cluster([1], **facts), 1) == []


@pytest.mark.parametrize(("ends", "leader"), [({1: LogEnd(3, 9), 2: LogEnd(3, 8)}, "1"), ({2: LogEnd(0, 1)}, "2")])
def test_the_longest_log_leads(ends, leader):
    image = cluster([1], **NOBODY_LEFT, last_known_elr=[2, 1])
    (ref,) = plan_log_comparison(image, 1)
    apply(image, decide_unfence_broker(image, 1, 7, log_ends={(ref.topic.id, ref.number): ends}))
    assert shown(image) == f"{leader} | {leader} | -"
