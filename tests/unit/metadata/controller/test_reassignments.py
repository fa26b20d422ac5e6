"""Reassignments: begun, completed by the ISR, changed on the way, cancelled, listed."""

from uuid import UUID

import pytest

from ottla.base.errors import ErrorCode
from ottla.metadata.controller.alter_partition import decide_alter_partition
from ottla.metadata.controller.brokers import decide_fence_broker
from ottla.metadata.controller.electorate import NO_STATIC_CONFIGS
from ottla.metadata.controller.reassignments import decide_alter_reassignments, decide_list_reassignments
from ottla.wire import api
from tests.unit.metadata.cluster import apply, image_of, orders, partition_of, shown, topic_records

Request = api.AlterPartitionReassignmentsRequest


class Orders:
    """Partition orders-0 of a cluster of six."""

    def __init__(self, replicas=(1, 2, 3), **facts):
        self.image = image_of(*orders(replicas, **facts), brokers=6)

    def reassign(self, *replicas, topic="orders", number=0, **options):
        """Without replicas: cancel."""
        wanted = Request.ReassignablePartition(partition_index=number, replicas=list(replicas) or None)
        request = Request(topics=[Request.ReassignableTopic(name=topic, partitions=[wanted])], **options)
        decision = decide_alter_reassignments(self.image, request, static_configs=NO_STATIC_CONFIGS)
        if decision.records:
            apply(self.image, decision)
        answer = decision.reply.responses[0].partitions[0]
        self.text = answer.error_message
        return ErrorCode(answer.error_code).name

    def in_sync(self, *isr):
        """The leader says so."""
        partition = self.partition
        proposal = api.AlterPartitionRequest.PartitionData(
            partition_index=0,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr=list(isr),
        )
        topic = api.AlterPartitionRequest.TopicData(topic_id=UUID(int=101), partitions=[proposal])
        request = api.AlterPartitionRequest(broker_id=partition.leader, broker_epoch=7, topics=[topic])
        apply(self.image, decide_alter_partition(self.image, request, static_configs=NO_STATIC_CONFIGS))

    @property
    def partition(self):
        return partition_of(self.image)

    @property
    def moves(self):
        partition = self.partition
        return partition.replicas, partition.adding_replicas, partition.removing_replicas


def test_replicas_move_once_the_new_ones_are_in_sync():
    some = Orders()
    assert some.reassign(4, 5, 6) == "NONE"
    assert some.moves == ((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3))
    assert shown(some.image) == "1 | 1 2 3 | -"
    some.in_sync(1, 2, 3, 4, 5)
    assert some.partition.is_moving
    some.in_sync(1, 2, 3, 4, 5, 6)
    assert some.moves == ((4, 5, 6), (), ())
    assert shown(some.image) == "4 | 4 5 6 | -"


def test_a_replication_factor_is_raised():
    some = Orders((1,))
    some.reassign(1, 2, 3)
    assert some.moves == ((1, 2, 3), (2, 3), ())
    some.in_sync(1, 2, 3)
    assert some.moves == ((1, 2, 3), (), ())


def test_while_it_is_raised_nobody_waits_for_replicas_that_are_not_there():
    some = Orders((1,), min_isr=2)
    some.reassign(1, 2, 3)
    assert some.partition.replication_factor == 1
    assert shown(some.image) == "1 | 1 | -"
    some.in_sync(1, 2, 3)
    assert some.partition.replication_factor == 3


def test_a_replication_factor_is_lowered_at_once_where_enough_are_in_sync():
    some = Orders((1, 2, 3), min_isr=2)
    assert some.reassign(2, 3) == "NONE"
    assert some.moves == ((2, 3), (), ())
    assert shown(some.image) == "2 | 2 3 | -"
    assert some.partition.leader_epoch == 1


def test_lowering_waits_where_too_few_of_the_rest_are_in_sync():
    some = Orders((1, 2, 3), min_isr=2, isr=[1, 3])
    assert some.reassign(1, 2) == "NONE"
    assert some.moves == ((1, 2, 3), (), (3,))
    some.in_sync(1, 2, 3)
    assert some.moves == ((1, 2), (), ())


def test_another_order_makes_another_preferred_leader():
    some = Orders()
    assert some.reassign(2, 1, 3) == "NONE"
    assert some.moves == ((2, 1, 3), (), ())
    assert (some.partition.leader, some.partition.leader_epoch) == (1, 0)


def test_the_replicas_it_has_are_nothing_to_do():
    some = Orders()
    before = some.image.offset
    assert some.reassign(1, 2, 3) == "NONE"
    assert some.image.offset == before


def test_cancelling_goes_back_to_the_replicas_before():
    some = Orders()
    some.reassign(4, 5, 6)
    some.in_sync(1, 2, 3, 4)
    assert some.reassign() == "NONE"
    assert some.moves == ((1, 2, 3), (), ())
    assert shown(some.image) == "1 | 1 2 3 | -"
    assert some.partition.leader_epoch == 1


def test_another_wish_on_the_way_starts_from_the_replicas_before():
    some = Orders()
    some.reassign(4, 5, 6)
    assert some.reassign(1, 4, 2) == "NONE"
    assert some.moves == ((1, 4, 2, 3), (4,), (3,))
    some.in_sync(1, 2, 3, 4)
    assert some.moves == ((1, 4, 2), (), ())


def test_cancelling_is_refused_while_it_would_leave_too_few_copies():
    some = Orders((1, 2, 3), min_isr=2)
    some.reassign(1, 4, 5)
    some.in_sync(1, 2, 3, 4)
    for broker_id in (2, 3):
        apply(some.image, decide_fence_broker(some.image, broker_id, 7))
    assert shown(some.image) == "1 | 1 4 | -"
    assert some.reassign() == "INVALID_REPLICA_ASSIGNMENT"
    assert "only [1] would be left, and 2 are needed" in some.text
    assert some.partition.is_moving


@pytest.mark.parametrize(
    ("wish", "options", "code"),
    [
        ((), {}, "NO_REASSIGNMENT_IN_PROGRESS"),
        ((1, 9), {}, "INVALID_REPLICA_ASSIGNMENT"),
        ((1, 1), {}, "INVALID_REPLICA_ASSIGNMENT"),
        ((1, 2), {"allow_replication_factor_change": False}, "INVALID_REPLICATION_FACTOR"),
        ((1, 2), {"topic": "nobody"}, "UNKNOWN_TOPIC_OR_PARTITION"),
        ((1, 2), {"number": 3}, "UNKNOWN_TOPIC_OR_PARTITION"),
    ],
)
def test_what_cannot_be_is_refused(wish, options, code):
    some = Orders()
    assert some.reassign(*wish, **options) == code
    assert not some.partition.is_moving


def test_a_move_that_keeps_the_factor_is_allowed_where_changing_it_is_not():
    some = Orders()
    assert some.reassign(4, 5, 6, allow_replication_factor_change=False) == "NONE"
    assert some.reassign(4, 5, 3, allow_replication_factor_change=False) == "NONE"


def test_a_partition_is_named_once():
    image = image_of(*orders((1, 2)), brokers=3)
    wishes = [Request.ReassignablePartition(partition_index=0, replicas=[3, one]) for one in (1, 2)]
    request = Request(topics=[Request.ReassignableTopic(name="orders", partitions=wishes)])
    decision = decide_alter_reassignments(image, request, static_configs=NO_STATIC_CONFIGS)
    answers = decision.reply.responses[0].partitions
    assert [ErrorCode(answer.error_code).name for answer in answers] == ["NONE", "INVALID_REQUEST"]
    assert len(decision.records) == 1


# ---- listing ----


def listed(image, topics=None):
    reply = decide_list_reassignments(image, api.ListPartitionReassignmentsRequest(topics=topics)).reply
    return {
        (topic.name, one.partition_index): (one.replicas, one.adding_replicas, one.removing_replicas)
        for topic in reply.topics
        for one in topic.partitions
    }


def test_what_moves_is_listed():
    some = Orders()
    assert listed(some.image) == {}
    some.reassign(4, 2, 3)
    assert listed(some.image) == {("orders", 0): ([4, 2, 3, 1], [4], [1])}


def test_only_what_is_asked_for_is_listed():
    some = Orders()
    some.reassign(4, 2, 3)
    asked = api.ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
    assert listed(some.image, [asked(name="orders", partition_indexes=[0, 7])]).keys() == {("orders", 0)}
    assert listed(some.image, [asked(name="nobody", partition_indexes=[0])]) == {}
    quiet = image_of(*topic_records("orders"))
    assert listed(quiet, [asked(name="orders", partition_indexes=[0])]) == {}
