"""Topic and broker configurations through every client: Kafka's names and defaults, set, deleted, appended, refused."""

from collections.abc import Callable

import pytest

from tests.conformance.client import Client, ClientError
from tests.conformance.error_codes import INVALID_CONFIG
from tests.conformance.registry import Can, clients_that
from tests.conformance.under_test import Keeper
from tests.conformance.waiting import eventually

KAFKA_DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "delete.retention.ms": "86400000",
    "index.interval.bytes": "4096",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
    "remote.storage.enable": "false",
    "local.retention.ms": "-2",
}


def expect_configs(reader: Client, topic: str, **expected: str) -> None:
    """Sooner or later the topic has these configurations; names are written with underscores."""
    wanted = {key.replace("_", "."): value for key, value in expected.items()}

    def shown() -> None:
        configs = reader.topic_configs(topic)
        assert {key: configs[key] for key in wanted} == wanted

    eventually(shown)


@clients_that(Can.ADMINISTER)
def test_defaults_are_kafkas(client: Client, topic: str) -> None:
    configs = client.call("describe_configs", kind="topic", name=topic)
    assert {key: configs[key]["value"] for key in KAFKA_DEFAULTS} == KAFKA_DEFAULTS
    assert not any(entry["read_only"] for entry in configs.values())


@clients_that(Can.CHANGE_CONFIGS)
def test_set_and_delete(client: Client, keeper: Keeper, topic: str) -> None:
    client.change_topic_configs(topic, ("SET", "retention.ms", "1000000"), ("SET", "max.message.bytes", "2000000"))
    expect_configs(client, topic, retention_ms="1000000", max_message_bytes="2000000")
    assert not client.call("describe_configs", kind="topic", name=topic)["retention.ms"]["default"]
    client.change_topic_configs(topic, ("DELETE", "retention.ms", None))
    expect_configs(client, topic, retention_ms=KAFKA_DEFAULTS["retention.ms"], max_message_bytes="2000000")
    assert client.call("describe_configs", kind="topic", name=topic)["retention.ms"]["default"]


@clients_that(Can.CHANGE_CONFIGS)
def test_append_and_subtract(client: Client, topic: str) -> None:
    client.change_topic_configs(topic, ("APPEND", "cleanup.policy", "compact"))
    expect_configs(client, topic, cleanup_policy="delete,compact")
    client.change_topic_configs(topic, ("APPEND", "cleanup.policy", "compact"))
    expect_configs(client, topic, cleanup_policy="delete,compact")
    client.change_topic_configs(topic, ("SUBTRACT", "cleanup.policy", "delete"))
    expect_configs(client, topic, cleanup_policy="compact")


@clients_that(Can.REPLACE_CONFIGS)
def test_replacing_drops_what_is_not_named(client: Client, keeper: Keeper, topic_name: str) -> None:
    keeper.create(topic_name, configs={"retention.ms": "5000000", "segment.ms": "6000000"})
    client.call("replace_configs", kind="topic", name=topic_name, configs={"segment.ms": "7000000"})
    # kafka-python names the others itself, to spare its user the surprise.
    retention_ms = "5000000" if client.name == "kafka-python" else KAFKA_DEFAULTS["retention.ms"]
    expect_configs(keeper.client, topic_name, segment_ms="7000000", retention_ms=retention_ms)


@clients_that(Can.CHANGE_CONFIGS)
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("no.such.key", "1"),
        ("retention.ms", "soon"),
        ("retention.ms", "-2"),
        ("cleanup.policy", "burn"),
        ("compression.type", "rar"),
        ("message.timestamp.type", "Tomorrow"),
        ("min.insync.replicas", "0"),
    ],
)
def test_what_is_not_valid_is_refused(client: Client, keeper: Keeper, topic: str, key: str, value: str) -> None:
    with pytest.raises(ClientError) as refused:
        client.change_topic_configs(topic, ("SET", key, value))
    assert refused.value.code == INVALID_CONFIG, refused.value
    assert keeper.topic_configs(topic)["retention.ms"] == KAFKA_DEFAULTS["retention.ms"]


@clients_that(Can.ADMINISTER)
def test_a_topic_is_not_created_with_an_invalid_config(client: Client, keeper: Keeper, topic_name: str) -> None:
    with pytest.raises(ClientError) as refused:
        client.create_topic(topic_name, configs={"retention.ms": "soon"})
    assert refused.value.code == INVALID_CONFIG, refused.value
    assert topic_name not in keeper.topics()


@clients_that(Can.ADMINISTER)
def test_broker_configs_are_shown(client: Client) -> None:
    node = str(client.call("describe_cluster")["controller"])
    configs = client.call("describe_configs", kind="broker", name=node)
    for key in ("log.dirs", "num.io.threads", "num.network.threads", "log.segment.bytes", "advertised.listeners"):
        assert key in configs, key
    assert configs["log.dirs"]["read_only"]
    assert not configs["log.retention.ms"]["read_only"]


@clients_that(Can.CHANGE_CONFIGS)
def test_a_brokers_config_changes_live_and_topics_inherit_it(client: Client, topic: str) -> None:
    node = str(client.call("describe_cluster")["controller"])
    client.call("change_configs", kind="broker", name=node, changes=[("SET", "log.retention.ms", "123456789")])
    try:
        expect_configs(client, topic, retention_ms="123456789")
        configs = client.call("describe_configs", kind="broker", name=node)
        assert configs["log.retention.ms"]["value"] == "123456789"
    finally:
        client.call("change_configs", kind="broker", name=node, changes=[("DELETE", "log.retention.ms", None)])
    expect_configs(client, topic, retention_ms=KAFKA_DEFAULTS["retention.ms"])


def test_every_client_sees_the_same_configs(borrow: Callable[[str], Client], topic: str) -> None:
    seen = {name: borrow(name).topic_configs(topic) for name in ("confluent-kafka", "kafkajs", "aiokafka", "java")}
    assert all(configs == seen["java"] for configs in seen.values())
