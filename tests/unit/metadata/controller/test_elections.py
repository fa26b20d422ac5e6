"""Elections by an administrator, and those that spread the leaders again."""

from uuid import UUID

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.metadata.controller.brokers import decide_fence_broker
from ottla.metadata.controller.elections import (
    BALANCING_ELECTIONS_MAX,
    ElectionType,
    decide_balance_leaders,
    decide_elect_leaders,
    decide_elect_where_leaderless,
)
from ottla.metadata.controller.electorate import NO_STATIC_CONFIGS
from ottla.wire import api
from tests.unit.metadata.cluster import (
    apply,
    broker_record,
    image_of,
    orders,
    partition_record,
    replay,
    shown,
    topic_records,
)

PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN


def cluster(*, leader, isr=(1, 2), fenced=()):
    """Partition orders-0 with the replicas 1 and 2, of which 1 is preferred."""
    image = image_of(*topic_records("orders", replicas=(1, 2)), brokers=2)
    topic_id = image.topics["orders"].id
    replay(image, api.PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=leader, isr=list(isr)))
    replay(image, *(broker_record(broker, fenced=True) for broker in fenced))
    return image


def decide(image, election_type=PREFERRED, *asked):
    topics = [api.ElectLeadersRequest.TopicPartitions(topic=topic, partitions=list(some)) for topic, some in asked]
    return decide_elect_leaders(
        image, api.ElectLeadersRequest(election_type=election_type, topic_partitions=topics or None)
    )


def outcome(image, election_type):
    """What is said of orders-0 by name, and who leads it afterwards."""
    decision = decide(image, election_type, ("orders", [0]))
    (result,) = decision.reply.replica_election_results[0].partition_result
    apply(image, decision)
    return ErrorCode(result.error_code).name, image.topics["orders"].partitions[0].leader


@pytest.mark.parametrize(
    ("election_type", "facts", "code", "leader"),
    [
        (PREFERRED, {"leader": 1}, "ELECTION_NOT_NEEDED", 1),
        (PREFERRED, {"leader": 2}, "NONE", 1),
        (PREFERRED, {"leader": 2, "isr": (2,)}, "PREFERRED_LEADER_NOT_AVAILABLE", 2),
        (PREFERRED, {"leader": 2, "fenced": (1,)}, "PREFERRED_LEADER_NOT_AVAILABLE", 2),
        (PREFERRED, {"leader": -1, "isr": (2,)}, "NONE", 2),
        (PREFERRED, {"leader": -1, "fenced": (1, 2)}, "PREFERRED_LEADER_NOT_AVAILABLE", -1),
        (UNCLEAN, {"leader": 2}, "ELECTION_NOT_NEEDED", 2),
        (UNCLEAN, {"leader": -1}, "NONE", 1),
        (UNCLEAN, {"leader": -1, "isr": (1,), "fenced": (1,)}, "NONE", 2),
        (UNCLEAN, {"leader": -1, "isr": (1,), "fenced": (1, 2)}, "ELIGIBLE_LEADERS_NOT_AVAILABLE", -1),
    ],
)
def test_who_is_elected(election_type, facts, code, leader):
    assert outcome(cluster(**facts), election_type) == (code, leader)


def test_an_election_starts_a_new_epoch_and_one_that_is_not_needed_does_not():
    image = cluster(leader=2)
    before = image.topics["orders"].partitions[0].leader_epoch
    apply(image, decide(image, PREFERRED, ("orders", [0, 0]), ("orders", [0])))
    assert image.topics["orders"].partitions[0].leader_epoch == before + 1
    assert decide(image, PREFERRED, ("orders", [0])).records == []


def test_of_all_partitions_only_those_that_needed_an_election_are_told():
    image = image_of(
        *topic_records("orders", replicas=(1, 2)), *topic_records("bills", number=2, replicas=(2, 1)), brokers=2
    )
    apply(image, decide_fence_broker(image, 1, 7))
    replay(image, broker_record(1))
    told = {one.topic: one.partition_result for one in decide(image).reply.replica_election_results}
    assert told["bills"] == []
    # Broker 1 is back, yet not in sync again.
    assert [ErrorCode(one.error_code).name for one in told["orders"]] == ["PREFERRED_LEADER_NOT_AVAILABLE"]


def test_an_unknown_kind_of_election_is_refused():
    with pytest.raises(ApiError, match="Unknown election type 7"):
        decide(image_of(), 7)


def test_an_unclean_election_leaves_the_new_leader_recovering_and_alone():
    image = cluster(leader=-1, isr=(1,), fenced=(1,))
    apply(image, decide(image, UNCLEAN, ("orders", [0])))
    partition = image.topics["orders"].partitions[0]
    assert (shown(image), partition.leader_recovery_state) == ("2 | 2 | -", 1)


# ---- after unclean elections were allowed ----


@pytest.mark.parametrize(("unclean", "expected", "count"), [(False, "- | - | 1", 0), (True, "2 | 2 | -", 1)])
def test_where_nobody_leads_the_configuration_may_let_somebody(unclean, expected, count):
    offline = {"leader": -1, "isr": [], "eligible_leader_replicas": [1]}
    image = image_of(*orders((1, 2), unclean=unclean, **offline), broker_record(1, fenced=True), brokers=3)
    decision = decide_elect_where_leaderless(image, static_configs=NO_STATIC_CONFIGS)
    apply(image, decision)
    assert (shown(image), decision.reply) == (expected, count)


# ---- balance ----


def spread(*leaders, replicas=(1, 2, 3), count=None, **changes):
    """Partitions of one topic, each with its leader; broker 1 is preferred by all."""
    leaders = leaders * (count or 1)
    records = [partition_record(replicas, partition=n, leader=leader, **changes) for n, leader in enumerate(leaders)]
    return image_of(api.TopicRecord(name="orders", topic_id=UUID(int=101)), *records, brokers=3)


def balance(image):
    return decide_balance_leaders(image, static_configs=NO_STATIC_CONFIGS)


def test_leaders_go_back_to_the_first_replicas():
    image = spread(1, 2, 3, 1)
    decision = balance(image)
    apply(image, decision)
    assert {one.leader for one in image.topics["orders"].partitions.values()} == {1}
    assert decision.reply is False


def test_who_is_not_in_sync_or_not_alive_gets_nothing_back():
    assert balance(spread(2, isr=[2, 3])).records == []
    image = spread(2)
    replay(image, broker_record(1, fenced=True))
    assert balance(image).records == []


def test_not_all_leaders_change_at_one_moment():
    image = spread(2, count=BALANCING_ELECTIONS_MAX + 5)
    first = balance(image)
    apply(image, first)
    second = balance(image)
    assert (len(first.records), first.reply) == (BALANCING_ELECTIONS_MAX, True)
    assert (len(second.records), second.reply) == (5, False)
