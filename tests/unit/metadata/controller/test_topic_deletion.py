from uuid import UUID

import pytest

from ottla.base.errors import ErrorCode
from ottla.metadata.controller.topic_deletion import decide_delete_topics
from ottla.wire import api
from tests.unit.metadata.cluster import apply, image_of, settings, topic_records

State = api.DeleteTopicsRequest.DeleteTopicState
ORDERS_ID = UUID(int=101)


def decide(*topics, names=(), image=None, **changes):
    image = image or image_of(*topic_records("orders"), *topic_records("other", number=2))
    return decide_delete_topics(image, api.DeleteTopicsRequest(topics=list(topics), topic_names=list(names)),
                                settings(**changes))  # fmt: skip


def outcomes(decision):
    return [(one.name, one.topic_id.int, ErrorCode(one.error_code).name) for one in decision.reply.responses]


def test_by_name():
    image = image_of(*topic_records("orders"))
    decision = decide(names=["orders"], image=image)
    assert outcomes(decision) == [("orders", 101, "NONE")]
    apply(image, decision)
    assert not image.topics


def test_by_id_the_answer_has_both():
    assert outcomes(decide(State(topic_id=ORDERS_ID))) == [("orders", 101, "NONE")]


@pytest.mark.parametrize(
    ("asked", "outcome"),
    [
        (State(name="nobody"), ("nobody", 0, "UNKNOWN_TOPIC_OR_PARTITION")),
        (State(topic_id=UUID(int=7)), (None, 7, "UNKNOWN_TOPIC_ID")),
        (State(name="orders", topic_id=ORDERS_ID), ("orders", 101, "INVALID_REQUEST")),
        (State(), (None, 0, "INVALID_REQUEST")),
    ],
)
def test_what_is_not_a_topic_is_refused(asked, outcome):
    decision = decide(asked)
    assert outcomes(decision) == [outcome]
    assert not decision.records


def test_a_topic_named_twice_is_not_deleted_but_others_are():
    decision = decide(State(name="orders"), State(topic_id=ORDERS_ID), State(name="other"))
    assert outcomes(decision) == [
        ("orders", 0, "INVALID_REQUEST"), (None, 101, "INVALID_REQUEST"), ("other", 102, "NONE")]  # fmt: skip
    assert len(decision.records) == 1


def test_an_unknown_topic_named_twice_is_a_wrong_request_too():
    assert {code for *_, code in outcomes(decide(names=["nobody", "nobody"]))} == {"INVALID_REQUEST"}


def test_deletion_can_be_disabled():
    decision = decide(names=["orders"], topic_deletion_enabled=False)
    assert outcomes(decision) == [("orders", 0, "TOPIC_DELETION_DISABLED")]
    assert not decision.records
