from uuid import UUID

import pytest

from ottla.base.errors import ErrorCode
from ottla.metadata.controller.partitions import decide_create_partitions
from ottla.wire import api
from tests.unit.metadata.cluster import apply, image_of, orders, topic_records

Topic = api.CreatePartitionsRequest.CreatePartitionsTopic
Assignment = api.CreatePartitionsRequest.CreatePartitionsAssignment


def decide(image, *topics, validate_only=False):
    return decide_create_partitions(
        image, api.CreatePartitionsRequest(topics=list(topics), validate_only=validate_only)
    )


def more(count, *replica_lists, name="orders"):
    assignments = [Assignment(broker_ids=list(one)) for one in replica_lists] or None
    return Topic(name=name, count=count, assignments=assignments)


def refusal(image, *topics):
    decision = decide(image, *topics)
    (result,) = decision.reply.results
    assert not decision.records
    return ErrorCode(result.error_code).name, result.error_message


def test_a_topic_grows():
    image = image_of(*topic_records("orders", partitions=2))
    before = image.topics["orders"].partitions[0]
    apply(image, decide(image, more(5)))
    assert list(image.topics["orders"].partitions) == [0, 1, 2, 3, 4]
    assert image.topics["orders"].partitions[0] is before


def test_new_partitions_have_as_many_replicas_as_the_old_ones():
    image = image_of(*topic_records("orders", replicas=(1, 2)), brokers=3)
    apply(image, decide(image, more(4)))
    assert {len(one.replicas) for one in image.topics["orders"].partitions.values()} == {2}


def test_while_the_replication_factor_is_raised_new_partitions_have_the_new_one():
    image = image_of(*orders((1, 2, 3), isr=[1], adding_replicas=[2, 3]), brokers=3)
    apply(image, decide(image, more(2)))
    assert len(image.topics["orders"].partitions[1].replicas) == 3


def test_new_partitions_may_be_assigned():
    image = image_of(*topic_records("orders", replicas=(1, 2)), brokers=3)
    apply(image, decide(image, more(3, (3, 1), (2, 3))))
    assert [one.replicas for one in image.topics["orders"].partitions.values()] == [(1, 2), (3, 1), (2, 3)]


@pytest.mark.parametrize(
    ("asked", "code", "text"),
    [
        (more(3), "INVALID_PARTITIONS", "Topic already has 3 partition(s)."),
        (more(2), "INVALID_PARTITIONS", "currently has 3 partition(s); 2 would not be an increase"),
        (more(5, name="nobody"), "UNKNOWN_TOPIC_OR_PARTITION", "does not exist"),
        (more(5, (1,)), "INVALID_REPLICA_ASSIGNMENT", "2 additional partition(s) were asked for, but 1 assignment(s)"),
        (more(4, (1, 2)), "INVALID_REPLICA_ASSIGNMENT", "2 replica(s) where other partitions have 1"),
        (more(2**31 - 1), "POLICY_VIOLATION", "10000 metadata records"),
    ],
)
def test_what_is_no_growth_is_refused(asked, code, text):
    found = refusal(image_of(*topic_records("orders", partitions=3), brokers=2), asked)
    assert found[0] == code
    assert text in found[1]


def test_a_topic_named_twice_is_refused_once():
    assert refusal(image_of(*topic_records("orders")), more(2), more(3))[0] == "INVALID_REQUEST"


def test_validate_only_records_nothing():
    decision = decide(image_of(*topic_records("orders")), more(2), validate_only=True)
    assert decision.reply.results[0].error_code == 0
    assert not decision.records


def test_topics_are_decided_one_by_one():
    image = image_of(*topic_records("orders"), *topic_records("other", number=2))
    decision = decide(image, more(1), more(2, name="other"))
    assert [one.error_code for one in decision.reply.results] == [ErrorCode.INVALID_PARTITIONS, 0]
    assert [record.topic_id for record in decision.records] == [UUID(int=102)]
