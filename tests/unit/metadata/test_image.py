"""Replay, record by record, and what it tells to those who follow."""

import sys
from uuid import UUID

import pytest

from ottla.base.errors import InvariantViolation
from ottla.base.types import TopicPartition
from ottla.metadata.image import MetadataBatch, MetadataImage
from ottla.metadata.image_parts import ConfigResource, ConfigResourceType
from ottla.metadata.scram import ScramIdentity, ScramMechanism
from ottla.wire import api
from tests.unit.metadata.cluster import broker_record, image_of, partition_record, replay, topic_records

ORDERS_ID = UUID(int=101)
ORDERS = ConfigResource(ConfigResourceType.TOPIC, "orders")


def test_a_topic_is_found_by_name_and_by_id_until_it_is_removed():
    image = image_of(*topic_records("orders", partitions=3))
    assert image.topics["orders"] is image.topics_by_id[ORDERS_ID]
    assert list(image.topics["orders"].partitions) == [0, 1, 2]
    replay(image, api.RemoveTopicRecord(topic_id=ORDERS_ID))
    assert not image.topics
    assert not image.topics_by_id


def test_a_removed_topic_takes_its_configurations_with_it():
    image = image_of(*topic_records("orders"), config("retention.ms", "5"))
    replay(image, api.RemoveTopicRecord(topic_id=ORDERS_ID))
    assert ORDERS not in image.configs


def config(name, value):
    return api.ConfigRecord(resource_type=ConfigResourceType.TOPIC, resource_name="orders", name=name, value=value)


def test_configurations_are_set_and_unset():
    image = image_of(*topic_records("orders"), config("retention.ms", "5"), config("segment.ms", "6"))
    assert image.configs_of(ConfigResourceType.TOPIC, "orders") == {"retention.ms": "5", "segment.ms": "6"}
    replay(image, config("retention.ms", None), config("segment.ms", None))
    assert ORDERS not in image.configs


def test_a_change_that_names_a_leader_starts_a_new_leader_epoch():
    image = image_of(*topic_records("orders", replicas=(1, 2)), brokers=2)
    replay(image, api.PartitionChangeRecord(partition_id=0, topic_id=ORDERS_ID, leader=2, isr=[2]))
    partition = image.topics["orders"].partitions[0]
    assert (partition.leader, partition.isr, partition.leader_epoch, partition.partition_epoch) == (2, (2,), 1, 1)


def test_a_change_of_the_isr_alone_keeps_the_leader_epoch():
    image = image_of(*topic_records("orders", replicas=(1, 2)), brokers=2)
    replay(image, api.PartitionChangeRecord(partition_id=0, topic_id=ORDERS_ID, isr=[1], eligible_leader_replicas=[2]))
    partition = image.topics["orders"].partitions[0]
    assert (partition.leader, partition.isr, partition.leader_epoch, partition.partition_epoch) == (1, (1,), 0, 1)
    assert partition.eligible_leader_replicas == (2,)
    assert partition.replicas == (1, 2)


def test_a_broker_is_fenced_and_unfenced_by_its_epoch():
    image = image_of(broker_record(3, fenced=True, broker_epoch=9))
    replay(image, api.BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=9, fenced=-1))
    assert not image.brokers[3].fenced
    replay(image, api.BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=9, in_controlled_shutdown=1))
    assert image.brokers[3].in_controlled_shutdown
    assert not image.brokers[3].fenced
    replay(image, api.FenceBrokerRecord(id=3, epoch=9))
    assert image.brokers[3].fenced
    replay(image, api.UnfenceBrokerRecord(id=3, epoch=9), api.UnregisterBrokerRecord(broker_id=3, broker_epoch=9))
    assert 3 not in image.brokers


def test_a_feature_at_level_zero_is_not_finalized():
    image = image_of()
    replay(image, api.FeatureLevelRecord(name="transaction.version", feature_level=0))
    assert "transaction.version" not in image.features


@pytest.mark.parametrize(
    "record",
    [
        api.TopicRecord(name="orders", topic_id=UUID(int=7)),
        api.TopicRecord(name="other", topic_id=ORDERS_ID),
        api.RemoveTopicRecord(topic_id=UUID(int=7)),
        api.PartitionRecord(partition_id=0, topic_id=UUID(int=7)),
        api.PartitionChangeRecord(partition_id=5, topic_id=ORDERS_ID),
        api.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, fenced=1),
        api.UnregisterBrokerRecord(broker_id=9, broker_epoch=1),
        api.RemoveUserScramCredentialRecord(name="nobody", mechanism=1),
        api.AccessControlEntryRecord(),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_that_cannot_be_stops_the_controller(record):
    with pytest.raises(InvariantViolation):
        replay(image_of(*topic_records("orders")), record)


def test_producer_ids_are_never_given_twice():
    image = image_of(api.ProducerIdsRecord(broker_id=1, next_producer_id=1000))
    with pytest.raises(InvariantViolation):
        replay(image, api.ProducerIdsRecord(broker_id=1, next_producer_id=1000))


def test_metadata_does_not_go_back():
    image = image_of()
    with pytest.raises(InvariantViolation):
        image.replay_batch(MetadataBatch((), image.offset, 1, 0))


def test_names_that_collide_are_known_as_long_as_they_exist():
    image = image_of(*topic_records("a.b"))
    assert image.colliding_topic("a_b") == "a.b"
    assert image.colliding_topic("a.b") is None
    assert image.colliding_topic("ab") is None
    assert image.copy().colliding_topic("a_b") == "a.b"
    replay(image, api.RemoveTopicRecord(topic_id=ORDERS_ID))
    assert image.colliding_topic("a_b") is None


@pytest.mark.parametrize("topic_name", ["orders", ""])
def test_another_minimum_of_replicas_makes_nobody_eligible_who_did_not_follow(topic_name):
    states = {0: {"isr": [1], "eligible_leader_replicas": [2]}, 1: {"isr": [], "leader": -1, "last_known_elr": [2]}}
    partitions = [partition_record((1, 2), partition=number, **state) for number, state in states.items()]
    image = image_of(api.TopicRecord(name="orders", topic_id=ORDERS_ID), *partitions, brokers=2)
    replay(image, api.ClearElrRecord(topic_name=topic_name))
    led, leaderless = image.topics["orders"].partitions.values()
    assert (led.eligible_leader_replicas, led.partition_epoch) == ((), 1)
    assert (leaderless.last_known_elr, leaderless.partition_epoch) == ((2,), 0)


# ---- deltas ----


def test_a_delta_tells_what_changed_and_is_told_once():
    image = image_of(*topic_records("old"))
    replay(
        image,
        *topic_records("new", number=2),
        api.PartitionChangeRecord(partition_id=0, topic_id=ORDERS_ID, leader=1),
        api.ConfigRecord(resource_type=2, resource_name="old", name="retention.ms", value="5"),
        broker_record(2),
        api.FeatureLevelRecord(name="group.version", feature_level=0),
        api.UserScramCredentialRecord(name="anna", mechanism=1, iterations=4096),
    )
    delta = image.take_delta()
    assert [topic.name for topic in delta.topics_created] == ["new"]
    assert list(delta.partitions_changed) == [TopicPartition("old", 0)]
    assert list(delta.configs_changed) == [ConfigResource(ConfigResourceType.TOPIC, "old")]
    assert list(delta.brokers_changed) == [2]
    assert delta.features_changed
    assert list(delta.scram_changed) == [ScramIdentity("anna", ScramMechanism.SHA_256)]
    assert image.take_delta().is_empty


def test_a_topic_that_came_and_went_is_not_in_the_delta():
    image = image_of()
    replay(image, *topic_records("brief"), api.RemoveTopicRecord(topic_id=ORDERS_ID))
    assert image.take_delta().is_empty


def test_a_topic_deleted_and_created_again_is_in_both_lists():
    image = image_of(*topic_records("orders"))
    replay(image, api.RemoveTopicRecord(topic_id=ORDERS_ID), *topic_records("orders", number=9))
    delta = image.take_delta()
    assert [topic.id for topic in delta.topics_deleted] == [ORDERS_ID]
    assert [topic.id for topic in delta.topics_created] == [UUID(int=109)]


def test_a_changed_partition_of_a_deleted_topic_is_not_told():
    image = image_of(*topic_records("orders"))
    replay(
        image,
        api.PartitionChangeRecord(partition_id=0, topic_id=ORDERS_ID, leader=1),
        api.RemoveTopicRecord(topic_id=ORDERS_ID),
    )
    assert not image.take_delta().partitions_changed


# ---- copies and cost ----


def test_a_copy_goes_its_own_way():
    image = image_of(*topic_records("orders"), config("retention.ms", "5"))
    twin = image.copy()
    replay(twin, api.PartitionChangeRecord(partition_id=0, topic_id=ORDERS_ID, leader=1), config("retention.ms", "6"))
    assert image.topics["orders"].partitions[0].leader_epoch == 0
    assert twin.topics["orders"].partitions[0].leader_epoch == 1
    assert image.configs[ORDERS] == {"retention.ms": "5"}
    assert (twin.offset, twin.epoch) == (image.offset + 2, image.epoch)


def test_ten_thousand_partitions_share_what_is_equal():
    image = MetadataImage()
    replay(image, broker_record(1), *(record for n in range(100) for record in topic_records(f"t{n}", number=n)))
    partitions = [topic.partitions[0] for topic in image.topics.values()]
    assert len({id(partition.replicas) for partition in partitions}) == 1
    assert len({id(partition.directories) for partition in partitions}) == 1
    assert sys.getsizeof(partitions[0]) < 200
