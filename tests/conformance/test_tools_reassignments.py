"""Kafka's own tools for leaders and replicas: leader-election and reassign-partitions, where nothing has to move."""

import json
from pathlib import Path

import pytest

from tests.conformance.kafka_tools import Tools
from tests.conformance.under_test import Keeper


@pytest.mark.parametrize("election_type", ["preferred", "unclean"])
def test_the_leader_that_leads_already_is_not_elected(tools: Tools, topic: str, election_type: str) -> None:
    of_partition = ("--election-type", election_type, "--topic", topic, "--partition", "0")
    assert (
        f"Valid replica already elected for partitions {topic}-0"
        in tools.ask("LeaderElectionCommand", *of_partition).out
    )
    tools.ask("LeaderElectionCommand", "--election-type", election_type, "--all-topic-partitions")


def test_a_leader_of_no_partition_is_not_elected(tools: Tools, topic: str) -> None:
    of_partition = ("--election-type", "preferred", "--topic", topic, "--partition", "7")
    refused = tools.attempt_ask("LeaderElectionCommand", *of_partition)
    assert refused.status == 1
    assert "UnknownTopicOrPartition" in refused.out + refused.err


def test_no_reassignment_is_listed(tools: Tools, topic: str) -> None:
    assert "No partition reassignments found." in tools.ask("ReassignPartitionsCommand", "--list").out


def plan(path: Path, topic: str, replicas: list[int], log_dir: str = "any") -> Path:
    partition = {"topic": topic, "partition": 0, "replicas": replicas, "log_dirs": [log_dir] * len(replicas)}
    path.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    return path


def test_a_reassignment_to_the_same_broker_and_directory_is_complete_at_once(
    tools: Tools, keeper: Keeper, topic: str, tmp_path: Path
) -> None:
    node = keeper.client.call("describe_cluster")["controller"]
    described = json.loads(tools.ask("LogDirsCommand", "--describe", "--topic-list", topic).lines[-1])
    [directory] = described["brokers"][0]["logDirs"]
    file = plan(tmp_path / "plan.json", topic, [node], directory["logDir"])
    executed = tools.ask("ReassignPartitionsCommand", "--execute", "--reassignment-json-file", file).out
    assert f"Successfully started partition reassignment for {topic}-0" in executed
    verified = tools.ask("ReassignPartitionsCommand", "--verify", "--reassignment-json-file", file).out
    assert f"Reassignment of partition {topic}-0 is completed." in verified


def test_a_reassignment_to_a_broker_that_does_not_exist_is_refused(tools: Tools, topic: str, tmp_path: Path) -> None:
    file = str(plan(tmp_path / "plan.json", topic, [4711]))
    refused = tools.attempt_ask("ReassignPartitionsCommand", "--execute", "--reassignment-json-file", file)
    assert refused.status == 1
    assert "4711" in refused.out + refused.err


def test_there_is_no_reassignment_to_cancel(tools: Tools, keeper: Keeper, topic: str, tmp_path: Path) -> None:
    file = plan(tmp_path / "plan.json", topic, [keeper.client.call("describe_cluster")["controller"]])
    printed = tools.ask("ReassignPartitionsCommand", "--cancel", "--reassignment-json-file", file).out
    assert "None of the specified partition reassignments are active." in printed
