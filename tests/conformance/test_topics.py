"""Topics through every client that administers: created, described, grown, refused, deleted."""

import os
from collections.abc import Callable

import pytest

from tests.conformance.client import Client, ClientError, Record
from tests.conformance.error_codes import (
    INVALID_PARTITIONS,
    INVALID_REPLICATION_FACTOR,
    INVALID_TOPIC_EXCEPTION,
    LEADER_NOT_AVAILABLE,
    TOPIC_ALREADY_EXISTS,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.conformance.registry import Can, clients_that, names_that
from tests.conformance.under_test import BrokerUnderTest, Keeper
from tests.conformance.waiting import eventually

LONGEST_NAME = 249


def expect_partitions(reader: Client, topic: str, count: int) -> None:
    def shown() -> None:
        assert [partition["index"] for partition in reader.partitions(topic)] == list(range(count))

    eventually(shown)


def expect_listed(keeper: Keeper, topic: str, *, listed: bool) -> None:
    def shown() -> None:
        assert (topic in keeper.topics()) == listed

    eventually(shown)


@clients_that(Can.ADMINISTER)
def test_create_describe_delete(client: Client, keeper: Keeper, topic_name: str) -> None:
    client.create_topic(topic_name, partitions=3)
    expect_partitions(client, topic_name, 3)
    node = client.call("describe_cluster")["controller"]
    for partition in client.partitions(topic_name):
        assert (partition["leader"], partition["replicas"], partition["isr"]) == (node, [node], [node])
    assert topic_name in client.topics()
    client.call("delete_topic", name=topic_name)
    expect_listed(keeper, topic_name, listed=False)


@clients_that(Can.DESCRIBE)
def test_every_client_describes_a_topic_alike(client: Client, keeper: Keeper, topic_name: str) -> None:
    keeper.create(topic_name, partitions=5)
    assert client.partitions(topic_name) == keeper.partitions(topic_name)


def test_every_client_shows_the_same_topic_id(borrow: Callable[[str], Client], topic: str) -> None:
    shown = [borrow(name).call("describe_topic", name=topic)["id"] for name in names_that(Can.SHOW_TOPIC_ID)]
    assert len(set(shown)) == 1, shown


@clients_that(Can.ADMINISTER)
def test_a_topic_that_is_there_already(client: Client, topic: str) -> None:
    with pytest.raises(ClientError) as refused:
        client.create_topic(topic)
    assert refused.value.code == TOPIC_ALREADY_EXISTS


@clients_that(Can.ADMINISTER)
def test_validate_only_creates_nothing(client: Client, keeper: Keeper, topic_name: str) -> None:
    client.create_topic(topic_name, validate_only=True)
    keeper.create(topic_name)  # Which would be refused if the topic were there.


@clients_that(Can.ADMINISTER)
def test_deleting_what_is_not_there(client: Client, topic_name: str) -> None:
    with pytest.raises(ClientError) as refused:
        client.call("delete_topic", name=topic_name)
    assert refused.value.code == UNKNOWN_TOPIC_OR_PARTITION


@clients_that(Can.ADMINISTER, Can.WRITE)
@pytest.mark.parametrize("shape", ["longest", "dots.and-dashes_{}", "_{}", "-{}", ".{}.", "UPPER.{}", "{}0123456789"])
def test_long_and_weird_names(client: Client, keeper: Keeper, topic_name: str, shape: str) -> None:
    name = topic_name.ljust(LONGEST_NAME, "n") if shape == "longest" else shape.format(topic_name.replace("-", "x"))
    client.create_topic(name)
    expect_partitions(client, name, 1)
    client.produce(name, [Record(value=b"v")])
    assert [found.value for found in keeper.fetch(name, count=1)] == [b"v"]
    client.call("delete_topic", name=name)


@clients_that(Can.ADMINISTER)
@pytest.mark.parametrize("name", [".", "..", "a b", "a/b", "a:b", "naïve", "new\nline", "n" * (LONGEST_NAME + 1)])
def test_invalid_names_are_refused(client: Client, name: str) -> None:
    with pytest.raises(ClientError) as refused:
        client.create_topic(name)
    assert refused.value.code == INVALID_TOPIC_EXCEPTION, refused.value


@clients_that(Can.ADMINISTER)
def test_a_dot_and_an_underscore_collide(client: Client, keeper: Keeper) -> None:
    """Metrics know them apart no more, so Kafka refuses the second name."""
    number = f"{os.getpid()}.{client.name}"
    keeper.create(f"orders.{number}")
    with pytest.raises(ClientError) as refused:
        client.create_topic(f"orders_{number}")
    assert refused.value.code == INVALID_TOPIC_EXCEPTION


@clients_that(Can.ADMINISTER)
def test_partitions_only_grow(client: Client, keeper: Keeper, topic_name: str) -> None:
    keeper.create(topic_name, partitions=2)
    client.call("create_partitions", name=topic_name, total=5)
    expect_partitions(client, topic_name, 5)
    for total in (3, 5):  # Fewer, and as many as there are.
        with pytest.raises(ClientError) as refused:
            client.call("create_partitions", name=topic_name, total=total)
        assert refused.value.code == INVALID_PARTITIONS
    keeper.produce(topic_name, [Record(value=b"v", partition=4)])
    assert len(keeper.fetch(topic_name, partition=4, count=1)) == 1


@clients_that(Can.ADMINISTER)
def test_scene_21_order_events(client: Client, topic_name: str) -> None:
    configs = {"retention.ms": "604800000", "min.insync.replicas": "2", "compression.type": "lz4"}
    with pytest.raises(ClientError) as refused:  # One node cannot hold three replicas.
        client.create_topic(topic_name, partitions=12, replication=3, configs=configs)
    assert refused.value.code == INVALID_REPLICATION_FACTOR
    client.create_topic(topic_name, partitions=12, configs=configs)
    expect_partitions(client, topic_name, 12)
    assert configs.items() <= client.topic_configs(topic_name).items()
    with pytest.raises(ClientError) as refused:
        client.call("create_partitions", name=topic_name, total=6)
    assert refused.value.code == INVALID_PARTITIONS


@clients_that(Can.WRITE)
def test_writing_creates_a_missing_topic(client: Client, keeper: Keeper, topic_name: str) -> None:
    client.produce(topic_name, [Record(value=b"first")])
    assert [found.value for found in keeper.fetch(topic_name, count=1)] == [b"first"]


@clients_that(Can.ASK_FOR_MISSING_TOPIC)
def test_asking_for_metadata_creates_a_missing_topic(client: Client, keeper: Keeper, topic_name: str) -> None:
    try:
        client.call("request_metadata", topic=topic_name)
    except ClientError as error:  # The first answer may come before the topic has a leader.
        assert error.code in (UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE)
    expect_listed(keeper, topic_name, listed=True)


@clients_that(Can.DESCRIBE)
def test_describe_cluster(client: Client, keeper: Keeper, broker: BrokerUnderTest) -> None:
    cluster, expected = (one.call("describe_cluster") for one in (client, keeper.client))
    assert cluster["brokers"] == expected["brokers"]
    assert [node["port"] for node in cluster["brokers"]] == [broker.port]
    assert cluster["controller"] == expected["controller"]
    assert cluster["cluster_id"] in (expected["cluster_id"], None)  # kcat does not show it.


@clients_that(Can.DESCRIBE_LOG_DIRS)
def test_log_dirs_tell_sizes(client: Client, keeper: Keeper, topic: str) -> None:
    keeper.produce(topic, [Record(value=b"x" * 5000)])
    [directory] = client.call("describe_log_dirs", topic=topic)
    assert 5000 < directory["partitions"][f"{topic}-0"] < 5200
    assert directory["path"].startswith("/")
