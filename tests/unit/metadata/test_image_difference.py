"""The delta between two images, for whoever gets a snapshot instead of the records it missed."""

from ottla.base.types import TopicPartition
from ottla.metadata.image_difference import difference
from ottla.metadata.image_parts import ConfigResource, ConfigResourceType
from ottla.metadata.scram import ScramIdentity, ScramMechanism
from ottla.wire import api
from tests.unit.metadata.cluster import broker_record, image_of, partition_record, replay, topic_records


def test_equal_images_do_not_differ():
    image = image_of(*topic_records("orders"))
    assert difference(image, image.copy()).is_empty


def test_topics_and_partitions():
    old = image_of(*topic_records("kept", number=1), *topic_records("gone", number=2))
    new = old.copy()
    replay(
        new,
        api.RemoveTopicRecord(topic_id=old.topics["gone"].id),
        *topic_records("gone", number=3),  # Another topic of that name.
        partition_record([1], number=1, partition=1),
    )
    delta = difference(old, new)
    assert [topic.id for topic in delta.topics_deleted] == [old.topics["gone"].id]
    assert [topic.id for topic in delta.topics_created] == [new.topics["gone"].id]
    assert list(delta.partitions_changed) == [TopicPartition("kept", 1)]


def test_a_partition_with_another_leader():
    old = image_of(*topic_records("orders", partitions=2, replicas=(1, 2)), brokers=2)
    new = old.copy()
    replay(new, api.PartitionChangeRecord(partition_id=1, topic_id=old.topics["orders"].id, leader=2))
    assert list(difference(old, new).partitions_changed) == [TopicPartition("orders", 1)]


def test_brokers_configurations_features_producer_ids_and_credentials():
    old = image_of(
        api.ConfigRecord(resource_type=2, resource_name="gone", name="retention.ms", value="1"),
        credential("gone"),
        brokers=2,
    )
    new = old.copy()
    replay(
        new,
        api.ConfigRecord(resource_type=2, resource_name="gone", name="retention.ms", value=None),
        api.ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value="5"),
        broker_record(3),
        api.FenceBrokerRecord(id=2, epoch=7),
        api.FeatureLevelRecord(name="metadata.version", feature_level=28),
        api.ProducerIdsRecord(broker_id=1, broker_epoch=7, next_producer_id=1000),
        api.RemoveUserScramCredentialRecord(name="gone", mechanism=1),
        credential("new"),
    )
    delta = difference(old, new)
    assert set(delta.configs_changed) == {
        ConfigResource(ConfigResourceType.TOPIC, "gone"),
        ConfigResource(ConfigResourceType.BROKER, ""),
    }
    assert list(delta.brokers_changed) == [2, 3]
    assert delta.features_changed
    assert delta.producer_ids_changed
    assert list(delta.scram_changed) == [
        ScramIdentity("gone", ScramMechanism.SHA_256),
        ScramIdentity("new", ScramMechanism.SHA_256),
    ]


def credential(user):
    return api.UserScramCredentialRecord(name=user, mechanism=ScramMechanism.SHA_256, iterations=4096)
