"""AlterPartition: what a leader may say about its ISR."""

from uuid import UUID

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.metadata.controller.alter_partition import decide_alter_partition
from ottla.metadata.controller.electorate import NO_STATIC_CONFIGS
from ottla.wire import api
from tests.unit.metadata.cluster import apply, broker_record, image_of, orders, partition_of, replay, shown

Request = api.AlterPartitionRequest
ORDERS_ID = UUID(int=101)


def cluster(**facts):
    """Leader epoch 5 and partition epoch 8, led by broker 1."""
    replicas = facts.pop("replicas", (1, 2, 3))
    return image_of(*orders(replicas, **{"leader_epoch": 5, "partition_epoch": 8, **facts}), brokers=4)


def propose(image, isr, *, broker=1, broker_epoch=7, topic_id=ORDERS_ID, number=0, epochs=None, refusing=(), **changes):
    proposal = Request.PartitionData(
        partition_index=number,
        new_isr_with_epochs=[
            Request.BrokerState(broker_id=one, broker_epoch=(epochs or {}).get(one, 7)) for one in isr
        ],
        **{"leader_epoch": 5, "partition_epoch": 8, **changes},
    )
    request = Request(
        broker_id=broker,
        broker_epoch=broker_epoch,
        topics=[Request.TopicData(topic_id=topic_id, partitions=[proposal])],
    )
    decision = decide_alter_partition(image, request, static_configs=NO_STATIC_CONFIGS, refusing=refusing)
    if decision.records:
        apply(image, decision)
    return decision.reply.topics[0].partitions[0]


def code(answer):
    return ErrorCode(answer.error_code).name


def test_a_leader_shrinks_and_expands_its_isr():
    image = cluster()
    answer = propose(image, [1, 3])
    assert (code(answer), answer.leader_id, answer.leader_epoch, answer.partition_epoch) == ("NONE", 1, 5, 9)
    assert shown(image) == "1 | 1 3 | -"
    assert propose(image, [1, 3, 2], partition_epoch=9).isr == [1, 3, 2]


def test_who_takes_no_writes_does_not_enter_and_is_not_thrown_out():
    image = cluster(isr=[1])
    answer = propose(image, [1, 2, 3], refusing=[3])
    assert (code(answer), answer.isr, answer.partition_epoch) == ("NONE", [1, 2], 9)
    assert propose(image, [1, 2, 3], refusing=[3], partition_epoch=9).partition_epoch == 9
    assert propose(image, [1, 2], refusing=[1], partition_epoch=9).isr == [1, 2]


def test_version_two_has_no_broker_epochs():
    image = cluster()
    proposal = Request.PartitionData(partition_index=0, leader_epoch=5, partition_epoch=8, new_isr=[1, 2])
    request = Request(
        broker_id=1, broker_epoch=7, topics=[Request.TopicData(topic_id=ORDERS_ID, partitions=[proposal])]
    )
    apply(image, decide_alter_partition(image, request, static_configs=NO_STATIC_CONFIGS))
    assert shown(image) == "1 | 1 2 | -"


def test_the_same_isr_again_changes_no_epoch():
    answer = propose(cluster(), [1, 2, 3])
    assert (code(answer), answer.partition_epoch) == ("NONE", 8)


def test_below_the_minimum_the_others_stay_eligible():
    image = cluster(min_isr=2)
    propose(image, [1])
    assert shown(image) == "1 | 1 | 2 3"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"topic_id": UUID(int=9)}, "UNKNOWN_TOPIC_ID"),
        ({"number": 4}, "UNKNOWN_TOPIC_OR_PARTITION"),
        ({"leader_epoch": 6}, "NOT_CONTROLLER"),
        ({"partition_epoch": 9}, "NOT_CONTROLLER"),
        ({"leader_epoch": 4}, "FENCED_LEADER_EPOCH"),
        ({"partition_epoch": 7}, "INVALID_UPDATE_VERSION"),
        ({"broker": 2}, "INVALID_REQUEST"),
        ({"isr": [2, 3]}, "INVALID_REQUEST"),
        ({"isr": []}, "INVALID_REQUEST"),
        ({"isr": [1, 1]}, "INVALID_REQUEST"),
        ({"isr": [1, 4]}, "INVALID_REQUEST"),
        ({"leader_recovery_state": 1}, "INVALID_REQUEST"),
        ({"leader_recovery_state": 7}, "INVALID_REQUEST"),
        ({"epochs": {2: 6}}, "INELIGIBLE_REPLICA"),
    ],
)
def test_a_wrong_or_old_word_is_refused_and_changes_nothing(changes, expected):
    image = cluster()
    assert code(propose(image, **{"isr": [1, 2], **changes})) == expected
    assert partition_of(image).partition_epoch == 8


def test_a_broker_that_was_replaced_is_refused_as_a_whole():
    with pytest.raises(ApiError) as refused:
        propose(cluster(), [1], broker_epoch=6)
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize("state", [{"fenced": True}, {"in_controlled_shutdown": True}])
def test_who_is_fenced_or_stopping_does_not_enter_an_isr(state):
    image = cluster(isr=[1, 3])
    replay(image, broker_record(2, **state))
    assert code(propose(image, [1, 2, 3])) == "INELIGIBLE_REPLICA"


def test_who_is_not_registered_does_not_enter_an_isr():
    image = cluster(replicas=(1, 9), isr=[1])
    assert code(propose(image, [1, 9])) == "INELIGIBLE_REPLICA"


def test_a_recovered_leader_says_so_and_may_have_company_from_then_on():
    image = cluster(isr=[1], leader_recovery_state=1)
    assert code(propose(image, [1, 2], leader_recovery_state=1)) == "INVALID_REQUEST"
    assert code(propose(image, [1], leader_recovery_state=0)) == "NONE"
    assert partition_of(image).leader_recovery_state == 0


def test_completing_a_reassignment_may_end_the_leadership():
    image = cluster(replicas=(4, 2, 1, 3), isr=[1, 2, 3], leader=1, adding_replicas=[4], removing_replicas=[1, 3])
    assert code(propose(image, [1, 2, 3, 4])) == "NEW_LEADER_ELECTED"
    assert shown(image) == "4 | 2 4 | -"
    assert partition_of(image).leader_epoch == 6


def test_a_partition_is_changed_once_in_a_request():
    image = cluster()
    proposals = [
        Request.PartitionData(partition_index=0, leader_epoch=5, partition_epoch=8, new_isr=isr)
        for isr in ([1, 2], [1, 3])
    ]
    request = Request(broker_id=1, broker_epoch=7, topics=[Request.TopicData(topic_id=ORDERS_ID, partitions=proposals)])
    decision = decide_alter_partition(image, request, static_configs=NO_STATIC_CONFIGS)
    assert [code(answer) for answer in decision.reply.topics[0].partitions] == ["NONE", "INVALID_UPDATE_VERSION"]
    assert len(decision.records) == 1
