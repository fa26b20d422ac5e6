"""Kafka's own administration tools: topics, configs, features, metadata-quorum, log-dirs, broker-api-versions."""

import json
import re

import pytest

from tests.conformance.client import Record
from tests.conformance.kafka_tools import Tools
from tests.conformance.under_test import Keeper
from tests.conformance.waiting import eventually

# What this issue delivers, by the names that kafka-broker-api-versions prints.
DELIVERED_APIS = {
    "Produce",
    "Fetch",
    "ListOffsets",
    "Metadata",
    "FindCoordinator",
    "ApiVersions",
    "CreateTopics",
    "DeleteTopics",
    "DeleteRecords",
    "InitProducerId",
    "OffsetForLeaderEpoch",
    "DescribeConfigs",
    "AlterConfigs",
    "DescribeLogDirs",
    "CreatePartitions",
    "IncrementalAlterConfigs",
    "UpdateFeatures",
    "DescribeCluster",
    "DescribeProducers",
    "ListConfigResources",
    "DescribeTopicPartitions",
}


def test_topics_are_created_described_grown_listed_and_deleted(tools: Tools, keeper: Keeper, topic_name: str) -> None:
    created = tools.ask(
        "TopicCommand", "--create", "--topic", topic_name, "--partitions", "2", "--config", "retention.ms=1000000"
    )
    assert f"Created topic {topic_name}." in created.out

    def described() -> str:
        printed = tools.ask("TopicCommand", "--describe", "--topic", topic_name).out
        assert "PartitionCount: 2" in printed
        return printed

    description = eventually(described)
    assert "retention.ms=1000000" in description
    assert re.search(r"TopicId: [\w-]{22}\s", description)
    assert len(re.findall(r"Partition: \d+\s+Leader: (\d+)\s+Replicas: \1\s+Isr: \1\s", description)) == 2

    refused = tools.attempt_ask("TopicCommand", "--alter", "--topic", topic_name, "--partitions", "1")
    assert refused.status == 1
    assert "currently has 2 partition(s); 1 would not be an increase" in refused.out
    tools.ask("TopicCommand", "--alter", "--topic", topic_name, "--partitions", "4")
    assert topic_name in tools.ask("TopicCommand", "--list").lines
    tools.ask("TopicCommand", "--delete", "--topic", topic_name)

    def gone() -> None:
        assert topic_name not in tools.ask("TopicCommand", "--list").lines

    eventually(gone)


def test_creating_twice_and_describing_nothing(tools: Tools, topic: str) -> None:
    twice = tools.attempt_ask("TopicCommand", "--create", "--topic", topic)
    assert twice.status == 1
    assert "already exists" in twice.out
    tools.ask("TopicCommand", "--create", "--if-not-exists", "--topic", topic)
    missing = tools.attempt_ask("TopicCommand", "--describe", "--topic", "no-such-topic-anywhere")
    assert missing.status == 1


def test_topic_configs_are_added_shown_and_deleted(tools: Tools, topic: str) -> None:
    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    added = "max.message.bytes=2000000,cleanup.policy=[compact,delete]"
    tools.ask("ConfigCommand", "--alter", *of_topic, "--add-config", added)

    def shown() -> str:
        printed = tools.ask("ConfigCommand", "--describe", *of_topic).out
        assert "max.message.bytes=2000000" in printed
        return printed

    description = eventually(shown)
    assert "cleanup.policy=compact,delete" in description
    assert "DYNAMIC_TOPIC_CONFIG:max.message.bytes=2000000, DEFAULT_CONFIG:message.max.bytes=1048588" in description
    tools.ask("ConfigCommand", "--alter", *of_topic, "--delete-config", "max.message.bytes")

    def gone() -> None:
        assert "max.message.bytes" not in tools.ask("ConfigCommand", "--describe", *of_topic).out

    eventually(gone)


@pytest.mark.parametrize("wrong", ["no.such.key=1", "retention.ms=soon"])
def test_a_wrong_config_is_refused_with_the_reason(tools: Tools, topic: str, wrong: str) -> None:
    refused = tools.attempt_ask(
        "ConfigCommand", "--alter", "--entity-type", "topics", "--entity-name", topic, "--add-config", wrong
    )
    assert refused.status == 1
    assert wrong.split("=")[0] in refused.out + refused.err


def test_all_broker_configs_are_shown_with_their_sources(tools: Tools, keeper: Keeper) -> None:
    node = str(keeper.client.call("describe_cluster")["controller"])
    printed = tools.ask("ConfigCommand", "--describe", "--entity-type", "brokers", "--entity-name", node, "--all").out
    assert "DEFAULT_CONFIG:log.retention.hours=168" in printed
    assert "DEFAULT_CONFIG:offsets.topic.num.partitions=50" in printed
    assert re.search(r"log\.dirs?=/\S+ sensitive=false synonyms=\{STATIC_BROKER_CONFIG", printed)


def finalized(tools: Tools, feature: str) -> tuple[int, int]:
    """A feature's finalized level and the greatest supported one."""
    printed = tools.ask("FeatureCommand", "describe").out
    found = re.search(rf"{feature}\s.*SupportedMaxVersion: (\S+)\s+FinalizedVersionLevel: (\S+)", printed)
    assert found is not None, printed
    return int(found[2]), int(found[1])


def test_features_are_described_and_changed(tools: Tools) -> None:
    assert re.search(
        r"metadata\.version\s.*FinalizedVersionLevel: 4\.\d-IV\d", tools.ask("FeatureCommand", "describe").out
    )
    level, greatest = finalized(tools, "transaction.version")
    assert level == greatest == 2
    tools.ask("FeatureCommand", "downgrade", "--feature", "transaction.version=1")
    try:
        eventually(lambda: expect(finalized(tools, "transaction.version")[0], 1))
    finally:
        tools.ask("FeatureCommand", "upgrade", "--feature", "transaction.version=2")
    eventually(lambda: expect(finalized(tools, "transaction.version")[0], 2))
    refused = tools.attempt_ask("FeatureCommand", "upgrade", "--feature", "transaction.version=99")
    assert refused.status == 1
    assert "Could not upgrade transaction.version to 99" in refused.out


def expect(found: object, expected: object) -> None:
    assert found == expected


def test_every_delivered_api_is_usable(tools: Tools) -> None:
    printed = tools.ask("BrokerApiVersionsCommand").out
    usable = set(re.findall(r"(\w+)\(\d+\): [^,]*\[usable: \d+\]", printed))
    assert usable >= DELIVERED_APIS, DELIVERED_APIS - usable
    # Old librdkafka stops compressing, without a word, where Produce does not start at 0 (KIP-896).
    assert "Produce(0): 0 to 13 [usable: 13]" in printed


def test_the_quorum_of_one_is_described(tools: Tools, keeper: Keeper) -> None:
    node = keeper.client.call("describe_cluster")["controller"]
    status = tools.ask("MetadataQuorumCommand", "describe", "--status").out
    assert re.search(rf"LeaderId:\s+{node}\n", status)
    assert re.search(r"HighWatermark:\s+[1-9]\d*\n", status)
    replication = tools.ask("MetadataQuorumCommand", "describe", "--replication").lines
    assert [line.split()[-1] for line in replication if line.startswith(f"{node} ")] == ["Leader"]


def test_the_cluster_id(tools: Tools, keeper: Keeper) -> None:
    printed = tools.run("ClusterTool", "cluster-id", "--bootstrap-server", tools.bootstrap).out
    assert printed.strip() == f"Cluster ID: {keeper.client.call('describe_cluster')['cluster_id']}"


def test_the_only_endpoint_is_listed(tools: Tools) -> None:
    host, port = tools.bootstrap.rsplit(":", 1)
    printed = tools.run("ClusterTool", "list-endpoints", "--bootstrap-server", tools.bootstrap).lines
    assert [line.split()[1:3] for line in printed[1:]] == [[host, port]]


def test_producers_are_described(tools: Tools, keeper: Keeper, topic: str) -> None:
    keeper.produce(topic, [Record(value=b"v")] * 4, idempotence=True)
    of_partition = ("--topic", topic, "--partition", "0")
    [header, producer] = tools.ask("TransactionsCommand", "describe-producers", *of_partition).lines
    shown = dict(zip(header.split(), producer.split(), strict=True))
    assert (shown["ProducerEpoch"], shown["LastSequence"]) == ("0", "3")
    assert shown["CurrentTransactionStartOffset"] == "None"


def test_log_dirs_are_described(tools: Tools, keeper: Keeper, topic: str) -> None:
    keeper.produce(topic, [Record(value=b"x" * 5000)])
    described = json.loads(tools.ask("LogDirsCommand", "--describe", "--topic-list", topic).lines[-1])
    [directory] = described["brokers"][0]["logDirs"]
    assert directory["error"] is None
    [partition] = directory["partitions"]
    assert partition["partition"] == f"{topic}-0"
    assert 5000 < partition["size"] < 5200
    assert (partition["offsetLag"], partition["isFuture"]) == (0, False)
