"""Leaders, replicas and log directories of partitions on one node, which cannot move any of them elsewhere."""

import pytest

from ottla.base.errors import ErrorCode
from ottla.wire import api
from ottla.wire.apis import ApiKey
from tests.unit.broker.real_node import play


async def elect(node, asked, *, election_type=0, version=2):
    topics = asked and [
        api.ElectLeadersRequest.TopicPartitions(topic=topic, partitions=partitions)
        for topic, partitions in asked.items()
    ]
    request = api.ElectLeadersRequest(election_type=election_type, topic_partitions=topics)
    return await node.ask(ApiKey.ELECT_LEADERS, request, version)


def told(response):
    return {
        (topic.topic, one.partition_id): ErrorCode(one.error_code).name
        for topic in response.replica_election_results
        for one in topic.partition_result
    }


@pytest.mark.parametrize(("version", "election_type"), [(0, 0), (1, 0), (2, 0), (1, 1), (2, 1)])
def test_no_election_is_needed(tmp_path, version, election_type):
    async def scene(node):
        await node.create_topic("orders", partitions=2)
        epoch = node.node.image.topics["orders"].partitions[0].leader_epoch
        asked = {"orders": [0, 1, 2], "nobody": [0]}
        assert told(await elect(node, asked, election_type=election_type, version=version)) == {
            ("orders", 0): "ELECTION_NOT_NEEDED",
            ("orders", 1): "ELECTION_NOT_NEEDED",
            ("orders", 2): "UNKNOWN_TOPIC_OR_PARTITION",
            ("nobody", 0): "UNKNOWN_TOPIC_OR_PARTITION",
        }
        assert told(await elect(node, None, election_type=election_type, version=version)) == {}
        assert node.node.image.topics["orders"].partitions[0].leader_epoch == epoch

    play(tmp_path, scene)


def test_an_unknown_kind_of_election_is_refused_whole(tmp_path):
    async def scene(node):
        response = await elect(node, {"orders": [0]}, election_type=7)
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert told(response) == {("orders", 0): "INVALID_REQUEST"}

    play(tmp_path, scene)


async def reassign(node, replicas, *, topic="orders", index=0, **more):
    wanted = api.AlterPartitionReassignmentsRequest.ReassignablePartition(partition_index=index, replicas=replicas)
    topics = [api.AlterPartitionReassignmentsRequest.ReassignableTopic(name=topic, partitions=[wanted])]
    request = api.AlterPartitionReassignmentsRequest(topics=topics, **more)
    response = await node.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, request)
    assert response.error_code == 0
    (answer,) = response.responses[0].partitions
    return ErrorCode(answer.error_code).name, answer.error_message


@pytest.mark.parametrize(
    ("replicas", "more", "code", "reason"),
    [
        ([1], {}, "NONE", None),
        ([1], {"allow_replication_factor_change": False}, "NONE", None),
        (None, {}, "NO_REASSIGNMENT_IN_PROGRESS", "orders-0"),
        ([], {}, "INVALID_REPLICA_ASSIGNMENT", "empty"),
        ([1, 1], {}, "INVALID_REPLICA_ASSIGNMENT", "twice"),
        ([1, 9], {}, "INVALID_REPLICA_ASSIGNMENT", "broker 9 is not registered"),
        ([1], {"index": 5}, "UNKNOWN_TOPIC_OR_PARTITION", "orders-5"),
        (None, {"topic": "nobody"}, "UNKNOWN_TOPIC_OR_PARTITION", "nobody-0"),
    ],
)
def test_replicas_stay_where_they_are(tmp_path, replicas, more, code, reason):
    async def scene(node):
        await node.create_topic("orders")
        before = node.node.image.topics["orders"].partitions[0]
        answer = await reassign(node, replicas, **more)
        assert answer[0] == code
        assert answer[1] is None if reason is None else reason in answer[1]
        assert node.node.image.topics["orders"].partitions[0] is before

    play(tmp_path, scene, node_id="1")


def test_no_reassignment_is_under_way(tmp_path):
    async def scene(node):
        await node.create_topic("orders")
        await reassign(node, [1])
        item = api.ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
        for topics in (None, [item(name="orders", partition_indexes=[0, 7]), item(name="no", partition_indexes=[0])]):
            request = api.ListPartitionReassignmentsRequest(topics=topics)
            response = await node.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, request)
            assert (response.error_code, response.topics) == (0, [])

    play(tmp_path, scene, node_id="1")


@pytest.mark.parametrize("version", [1, 2])
def test_a_partition_stays_in_its_log_directory(tmp_path, version):
    async def put(node, path, topic="orders", index=0):
        of_topic = api.AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(name=topic, partitions=[index])
        request = api.AlterReplicaLogDirsRequest(
            dirs=[api.AlterReplicaLogDirsRequest.AlterReplicaLogDir(path=str(path), topics=[of_topic])]
        )
        response = await node.ask(ApiKey.ALTER_REPLICA_LOG_DIRS, request, version)
        assert response.results[0].topic_name == topic
        (result,) = response.results[0].partitions
        assert result.partition_index == index
        return ErrorCode(result.error_code).name

    async def scene(node):
        await node.create_topic("orders")
        home = node.node.partitions.leader_of("orders", 0).storage.path
        (other,) = (one.path for one in node.node.directories if one.path != home)
        assert await put(node, home) == "NONE"
        assert await put(node, other) == "UNSUPPORTED_VERSION"
        assert await put(node, tmp_path / "elsewhere") == "LOG_DIR_NOT_FOUND"
        assert await put(node, home, index=1) == "UNKNOWN_TOPIC_OR_PARTITION"
        assert await put(node, home, topic="nobody") == "UNKNOWN_TOPIC_OR_PARTITION"
        assert node.node.partitions.leader_of("orders", 0).storage.path == home

    play(tmp_path, scene, log_dirs=f"{tmp_path}/a,{tmp_path}/b")
