"""Ottla's own SDK against a real broker: topics, configurations, offsets and the cluster, administered."""

from collections.abc import Iterator

import pytest

from ottla.client import (
    Admin,
    ClientError,
    KeysMoveWarning,
    NewTopic,
    OffsetSpec,
    PartialFailure,
    Producer,
    TopicPartition,
)
from tests.conformance.conftest import BrokerUnderTest
from tests.conformance.waiting import eventually


@pytest.fixture
def admin(broker: BrokerUnderTest) -> Iterator[Admin]:
    with Admin(bootstrap_servers=broker.bootstrap) as opened:
        yield opened


def test_a_topics_life(admin: Admin, topic_name: str) -> None:
    admin.create_topic(topic_name, 3, 1)
    assert topic_name in admin.list_topics()
    described = admin.describe_topic(topic_name)
    assert [info.partition for info in described.partitions] == [0, 1, 2]
    assert all(info.replicas == info.in_sync_replicas == (info.leader,) for info in described.partitions)
    assert described.topic_id.int
    with pytest.warns(KeysMoveWarning, match="order across this change is lost"):
        admin.create_partitions({topic_name: 5})
    assert len(admin.describe_topic(topic_name).partitions) == 5
    with pytest.raises(ClientError, match=r"INVALID_PARTITIONS.*only grow"):
        admin.create_partitions({topic_name: 2})
    admin.delete_topic(topic_name)

    def gone() -> None:
        assert topic_name not in admin.list_topics()

    eventually(gone)


@pytest.mark.filterwarnings("error::ottla.client.topics.KeysMoveWarning")
def test_growth_is_silent_where_keys_may_move(admin: Admin, topic_name: str) -> None:
    admin.create_topic(topic_name, 1, 1)
    admin.create_partitions({topic_name: 2}, keys_may_move=True)


def test_several_topics_of_which_some_fail(admin: Admin, topic_name: str) -> None:
    taken = [f"{topic_name}-{number}" for number in range(2)]
    admin.create_topics([NewTopic(name, 1, 1) for name in taken])
    with pytest.raises(PartialFailure) as caught:
        admin.create_topics([NewTopic(name, 1, 1) for name in (*taken, f"{topic_name}-new")])
    assert {name: error.code for name, error in caught.value.failures.items()} == dict.fromkeys(
        taken, "TOPIC_ALREADY_EXISTS"
    )
    assert f"{topic_name}-new" in admin.list_topics()


def test_validate_only_creates_nothing(admin: Admin, topic_name: str) -> None:
    admin.create_topic(topic_name, 1, 1, validate_only=True)
    assert topic_name not in admin.list_topics()
    with pytest.raises(ClientError, match="INVALID_REPLICATION_FACTOR"):
        admin.create_topic(topic_name, 1, 99, validate_only=True)


def test_configurations_set_appended_unset(admin: Admin, topic_name: str) -> None:
    admin.create_topic(topic_name, 1, 1, {"retention.ms": 604800000, "unclean.leader.election.enable": False})
    configs = admin.describe_configs(topic_name)
    assert (configs["retention.ms"].value, configs["retention.ms"].source) == ("604800000", "DYNAMIC_TOPIC_CONFIG")
    assert configs["segment.bytes"].is_default
    admin.alter_configs(topic_name, {"retention.ms": 1000, "max.message.bytes": 2_000_000})
    admin.alter_configs(topic_name, {"retention.ms": None}, append={"cleanup.policy": "compact"})
    configs = admin.describe_configs(topic_name)
    assert configs["retention.ms"].is_default
    assert configs["max.message.bytes"].value == "2000000"
    assert configs["cleanup.policy"].value == "delete,compact"
    admin.alter_configs(topic_name, subtract={"cleanup.policy": "delete"})
    assert admin.describe_configs(topic_name)["cleanup.policy"].value == "compact"


def test_a_brokers_configuration(admin: Admin) -> None:
    (broker, *_) = admin.describe_cluster().brokers
    assert admin.describe_configs(broker=broker.id)["num.partitions"].value
    with pytest.raises(TypeError, match="name a topic, or broker"):
        admin.describe_configs()


def test_offsets_and_deleting_records(admin: Admin, broker: BrokerUnderTest, topic_name: str) -> None:
    partition = TopicPartition(topic_name, 0)
    admin.create_topic(topic_name, 1, 1)
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(10):
            producer.send(topic_name, str(number), timestamp_ms=1_000 * (10 - number))
    offsets = {
        spec: admin.list_offsets({partition: spec})[partition].offset
        for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST, OffsetSpec.MAX_TIMESTAMP, 9_500)
    }
    assert offsets == {OffsetSpec.EARLIEST: 0, OffsetSpec.LATEST: 10, OffsetSpec.MAX_TIMESTAMP: 0, 9_500: 0}
    assert admin.delete_records({partition: 4}) == {partition: 4}
    assert admin.list_offsets({partition: OffsetSpec.EARLIEST})[partition].offset == 4


def test_the_cluster(admin: Admin, broker: BrokerUnderTest) -> None:
    described = admin.describe_cluster()
    assert described.cluster_id
    assert broker.port in {node.port for node in described.brokers}
    assert described.controller in {node.id for node in described.brokers}


def test_the_admin_example_of_seed_003(admin: Admin, topic_name: str) -> None:
    """`order-events` with twelve partitions; one broker has one replica of each, and can promise no more."""
    configs = {"retention.ms": "604800000", "min.insync.replicas": "2", "compression.type": "lz4"}
    admin.create_topics([NewTopic(topic_name, 12, 1, configs)])
    assert len(admin.describe_topic(topic_name).partitions) == 12
    effective = admin.describe_configs(topic_name)
    assert {name: effective[name].value for name in configs} == configs
