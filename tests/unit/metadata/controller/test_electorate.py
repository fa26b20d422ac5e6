"""Who may lead, and by which rules."""

from uuid import UUID

import pytest

from ottla.metadata.controller.electorate import NO_STATIC_CONFIGS, Electorate, TopicRules
from ottla.metadata.image_parts import UNASSIGNED_DIRECTORY
from ottla.wire import api
from tests.unit.metadata.cluster import DIRECTORY_ID, broker_record, image_of, orders, partition_of, topic_records


def leaders(image, **changes):
    electorate = Electorate(image, NO_STATIC_CONFIGS, **changes)
    return [one for one in range(1, 6) if electorate.may_lead(partition_of(image), one)]


def test_active_replicas_may_lead():
    image = image_of(
        *topic_records("orders", replicas=(1, 2, 3, 9)),
        broker_record(2, fenced=True),
        broker_record(3, in_controlled_shutdown=True),
        brokers=4,
    )
    assert leaders(image) == [1]
    assert leaders(image, joining=2) == [1, 2]
    assert leaders(image, leaving=1) == []


def test_a_replica_leads_from_a_directory_that_is_online_or_still_to_be_chosen():
    directories = [DIRECTORY_ID, UUID(int=3), UNASSIGNED_DIRECTORY]
    assert leaders(image_of(*orders((1, 2, 3), directories=directories), brokers=3)) == [1, 3]


@pytest.mark.parametrize(
    ("static", "default", "topic", "expected"),
    [
        ({}, None, {}, TopicRules(2, False)),
        ({"min.insync.replicas": "3"}, None, {}, TopicRules(2, False)),
        ({"min.insync.replicas": "3"}, "1", {}, TopicRules(1, False)),
        ({"unclean.leader.election.enable": "true"}, None, {"min.insync.replicas": "1"}, TopicRules(1, True)),
        ({"unclean.leader.election.enable": "true"}, None, {"unclean.leader.election.enable": "false"},
         TopicRules(2, False)),
    ],
)  # fmt: skip
def test_rules_come_from_the_topic_then_from_all_brokers_then_from_the_settings(static, default, topic, expected):
    configs = [(2, "orders", name, value) for name, value in topic.items()]
    if default is not None:
        configs.append((4, "", "min.insync.replicas", default))
    image = image_of(
        *topic_records("orders", replicas=(1, 2, 3)),
        *(api.ConfigRecord(resource_type=kind, resource_name=of, name=k, value=v) for kind, of, k, v in configs),
        brokers=3,
    )
    electorate = Electorate(image, static)
    assert electorate.rules(image.topics["orders"], partition_of(image)) == expected


def test_topics_that_differ_have_rules_of_their_own():
    image = image_of(*orders((1, 2, 3), min_isr=3), *topic_records("bills", number=2, replicas=(1, 2, 3)), brokers=3)
    electorate = Electorate(image, NO_STATIC_CONFIGS)
    found = [electorate.rules(topic, topic.partitions[0]).min_isr for topic in image.topics.values()]
    assert found == [3, 2]
