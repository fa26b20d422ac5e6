"""Metadata in every version, and DescribeTopicPartitions page by page."""

from uuid import UUID

import pytest

from ottla.base.errors import ErrorCode
from ottla.broker.handlers.many_topics import TOPICS_PER_TURN
from ottla.broker.handlers.metadata import APIS, CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from ottla.broker.neighbours import LISTED_SECONDS
from ottla.wire import api
from ottla.wire.apis import ApiKey
from tests.unit.broker.admin_node import AdminNode, ask
from tests.unit.metadata.cluster import broker_record, partition_record, replay, topic_records

ORDERS_ID = UUID(int=101)
VERSIONS = range(14)
Topic = api.MetadataRequest.MetadataRequestTopic


def metadata(node, *names, topics=None, version=13, listener="PLAINTEXT", **more):
    asked = [Topic(name=name) for name in names] if topics is None and names else topics
    return ask(
        node, APIS, ApiKey.METADATA, api.MetadataRequest(topics=asked, **more), version=version, listener=listener
    )


def only_topic(response):
    (topic,) = response.topics
    return topic


def code(topic):
    return ErrorCode(topic.error_code).name


# ---- the cluster ----


@pytest.mark.parametrize("version", VERSIONS)
def test_brokers_controller_and_cluster_id(version):
    response = metadata(AdminNode(brokers=2), topics=[] if version == 0 else None, version=version)
    assert [(one.node_id, one.host, one.port) for one in response.brokers] == [(1, "host-1", 9092), (2, "host-2", 9092)]
    assert response.controller_id == (1 if version >= 1 else -1)
    assert response.cluster_id == ("EjRWeBI0VngSNFZ4EjRWeA" if version >= 2 else None)


def test_addresses_are_those_of_the_listener_the_client_came_through():
    response = metadata(AdminNode(), listener="OUTSIDE")
    assert [(one.host, one.port) for one in response.brokers] == [("outside-1", 19092)]


def test_a_broker_without_that_listener_and_a_fenced_one_are_not_told():
    node = AdminNode(broker_record(2, end_points=[]), broker_record(3, fenced=True))
    assert [one.node_id for one in metadata(node).brokers] == [1]


def test_one_that_was_lost_a_moment_ago_is_listed_still():
    node = AdminNode(*topic_records("orders", replicas=(2, 1)), brokers=2)
    replay(node.image, broker_record(2, fenced=True), partition_record((2, 1), leader=1, leader_epoch=1))
    node.neighbours.on_metadata(node.image.take_delta(), node.image)
    response = metadata(node, "orders")
    assert [broker.node_id for broker in response.brokers] == [1, 2]
    assert [partition.leader_id for partition in only_topic(response).partitions] == [1]
    assert [broker.node_id for broker in metadata(node).brokers] == [1], "not to who asks for everything"
    node.clock.advance(LISTED_SECONDS + 1)
    assert [broker.node_id for broker in metadata(node, "orders").brokers] == [1]


def test_racks_are_told():
    assert metadata(AdminNode(broker_record(1, rack="a"))).brokers[0].rack == "a"


@pytest.mark.parametrize("version", [8, 9, 10])
def test_cluster_operations_when_asked(version):
    assert metadata(AdminNode(), version=version).cluster_authorized_operations == NOT_ASKED
    response = metadata(AdminNode(), version=version, include_cluster_authorized_operations=True)
    assert response.cluster_authorized_operations == CLUSTER_OPERATIONS


# ---- which topics ----


@pytest.mark.parametrize("version", VERSIONS)
def test_every_topic(version):
    node = AdminNode(*topic_records("a"), *topic_records("b", number=2))
    response = metadata(node, topics=[] if version == 0 else None, version=version)
    assert [one.name for one in response.topics] == ["a", "b"]


def test_more_topics_than_fit_in_one_turn_of_the_loop():
    names = [f"t{number}" for number in range(2 * TOPICS_PER_TURN + 1)]
    node = AdminNode(*(record for number, name in enumerate(names) for record in topic_records(name, number=number)))
    assert [one.name for one in metadata(node).topics] == names
    assert [one.name for one in metadata(node, *names, "unknown").topics] == [*names, "unknown"]


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_an_empty_list_is_no_topic(version):
    assert metadata(AdminNode(*topic_records("a")), topics=[], version=version).topics == []


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_by_name(version):
    topic = only_topic(metadata(AdminNode(*topic_records("orders", partitions=2)), "orders", version=version))
    assert (topic.error_code, topic.name, topic.is_internal) == (0, "orders", False)
    assert topic.topic_id == (ORDERS_ID if version >= 10 else UUID(int=0))
    assert [(one.partition_index, one.leader_id, one.replica_nodes, one.isr_nodes) for one in topic.partitions] == [
        (0, 1, [1], [1]), (1, 1, [1], [1])]  # fmt: skip
    assert topic.partitions[0].leader_epoch == (0 if version >= 7 else -1)


@pytest.mark.parametrize("version", [12, 13])
def test_a_topic_by_id(version):
    node = AdminNode(*topic_records("orders"))
    found = only_topic(metadata(node, topics=[Topic(topic_id=ORDERS_ID, name=None)], version=version))
    assert (code(found), found.name) == ("NONE", "orders")
    missing = only_topic(metadata(node, topics=[Topic(topic_id=UUID(int=7), name=None)], version=version))
    assert (code(missing), missing.name, missing.topic_id) == ("UNKNOWN_TOPIC_ID", None, UUID(int=7))


def test_neither_name_nor_id_is_a_wrong_request():
    assert code(only_topic(metadata(AdminNode(), topics=[Topic(name=None)]))) == "INVALID_REQUEST"
    assert code(only_topic(metadata(AdminNode(), topics=[Topic(name=None, topic_id=ORDERS_ID)], version=11))) == (
        "INVALID_REQUEST"
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["a b", "x" * 250, ".."])
def test_an_illegal_name(version, name):
    topic = only_topic(metadata(AdminNode(), name, version=version))
    assert (code(topic), topic.name) == ("INVALID_TOPIC_EXCEPTION", name)


def test_topic_operations_when_asked():
    node = AdminNode(*topic_records("orders"))
    assert only_topic(metadata(node, "orders")).topic_authorized_operations == NOT_ASKED
    response = metadata(node, "orders", include_topic_authorized_operations=True)
    assert only_topic(response).topic_authorized_operations == TOPIC_OPERATIONS


def test_internal_topics_are_marked():
    assert only_topic(metadata(AdminNode(*topic_records("__consumer_offsets")), "__consumer_offsets")).is_internal


# ---- creation by asking ----


@pytest.mark.parametrize("version", VERSIONS)
def test_a_missing_topic_is_created_and_has_its_leaders_at_once(version):
    node = AdminNode(default_partition_count=3)
    topic = only_topic(metadata(node, "orders", version=version))
    assert (code(topic), len(topic.partitions)) == ("NONE", 3)
    assert [one.leader_id for one in topic.partitions] == [1, 1, 1]
    assert "orders" in node.image.topics


def test_a_topic_named_twice_is_created_once():
    node = AdminNode()
    assert [code(one) for one in metadata(node, "orders", "orders").topics] == ["NONE", "NONE"]


def test_a_client_may_ask_not_to_create():
    node = AdminNode()
    assert code(only_topic(metadata(node, "orders", allow_auto_topic_creation=False))) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert not node.image.topics


def test_a_node_may_refuse_to_create():
    node = AdminNode(static={"auto.create.topics.enable": False})
    assert code(only_topic(metadata(node, "orders"))) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert not node.image.topics


def test_an_internal_topic_is_not_created_by_asking():
    assert code(only_topic(metadata(AdminNode(), "__consumer_offsets"))) == "UNKNOWN_TOPIC_OR_PARTITION"


def test_why_a_topic_could_not_be_created():
    node = AdminNode(*topic_records("a.b"), default_replication_factor=3)
    assert [code(one) for one in metadata(node, "a_b", "orders").topics] == [
        "INVALID_TOPIC_EXCEPTION", "INVALID_REPLICATION_FACTOR"]  # fmt: skip


def test_a_disk_that_refuses_the_metadata_is_told():
    node = AdminNode()
    node.log.append_error = OSError(28, "full")
    assert code(only_topic(metadata(node, "orders"))) == "KAFKA_STORAGE_ERROR"


def test_what_is_known_is_answered_beside_what_is_not():
    node = AdminNode(*topic_records("a"), static={"auto.create.topics.enable": False})
    assert [code(one) for one in metadata(node, "a", "b").topics] == ["NONE", "UNKNOWN_TOPIC_OR_PARTITION"]


# ---- leaders that are away ----


def test_a_fenced_leader_is_not_available_and_offline():
    node = AdminNode(broker_record(2, fenced=True), *topic_records("orders", replicas=(2, 1)))
    partition = only_topic(metadata(node, "orders")).partitions[0]
    assert (code(partition), partition.leader_id, partition.offline_replicas) == ("LEADER_NOT_AVAILABLE", -1, [2])


def test_a_replica_on_a_disk_that_its_broker_has_no_more_is_offline():
    node = AdminNode(broker_record(2, log_dirs=[UUID(int=31)]), *topic_records("orders", replicas=(1, 2)))
    assert only_topic(metadata(node, "orders")).partitions[0].offline_replicas == [2]


@pytest.mark.parametrize(("version", "name"), [(5, "LEADER_NOT_AVAILABLE"), (6, "LISTENER_NOT_FOUND")])
def test_a_leader_without_the_clients_listener(version, name):
    node = AdminNode(broker_record(2, end_points=[]), *topic_records("orders", replicas=(2, 1)))
    partition = only_topic(metadata(node, "orders", version=version)).partitions[0]
    assert (code(partition), partition.leader_id, partition.offline_replicas) == (name, -1, [])


# ---- DescribeTopicPartitions ----

Request = api.DescribeTopicPartitionsRequest


def describe(node, *names, limit=2000, cursor=None):
    request = Request(
        topics=[Request.TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else Request.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    return ask(node, APIS, ApiKey.DESCRIBE_TOPIC_PARTITIONS, request)


def pages(node, *names, limit):
    """All pages, each as [(topic, partition numbers)]."""
    found, cursor = [], None
    while True:
        response = describe(node, *names, limit=limit, cursor=cursor)
        found.append([(one.name, [part.partition_index for part in one.partitions]) for one in response.topics])
        if response.next_cursor is None:
            return found
        cursor = (response.next_cursor.topic_name, response.next_cursor.partition_index)


@pytest.fixture
def three_topics():
    return AdminNode(
        *topic_records("b", number=1, partitions=3),
        *topic_records("a", number=2, partitions=2),
        *topic_records("c", number=3, partitions=1),
    )


def test_topics_come_in_order_of_their_names(three_topics):
    assert pages(three_topics, limit=100) == [[("a", [0, 1]), ("b", [0, 1, 2]), ("c", [0])]]


@pytest.mark.parametrize("limit", range(1, 7))
def test_pages_of_any_size_give_each_partition_once(three_topics, limit):
    found = pages(three_topics, limit=limit)
    assert all(sum(len(numbers) for _, numbers in page) <= limit for page in found)
    assert [(name, number) for page in found for name, numbers in page for number in numbers] == [
        ("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2), ("c", 0)]  # fmt: skip


def test_the_node_bounds_the_page():
    node = AdminNode(*topic_records("a", partitions=5), static={"max.request.partition.size.limit": 2})
    assert pages(node, limit=100) == [[("a", [0, 1])], [("a", [2, 3])], [("a", [4])]]


def test_only_the_topics_asked_for(three_topics):
    assert pages(three_topics, "c", "a", limit=100) == [[("a", [0, 1]), ("c", [0])]]


def test_what_is_no_topic_is_said(three_topics):
    response = describe(three_topics, "a", "nobody", "no body")
    assert [(one.name, code(one)) for one in response.topics] == [
        ("a", "NONE"), ("no body", "INVALID_TOPIC_EXCEPTION"), ("nobody", "UNKNOWN_TOPIC_OR_PARTITION")]  # fmt: skip


@pytest.mark.parametrize("cursor", [("a", -1), ("c", 0)])
def test_a_wrong_cursor_is_a_wrong_request(three_topics, cursor):
    response = describe(three_topics, "a", "b", cursor=cursor)
    assert [code(one) for one in response.topics] == ["INVALID_REQUEST", "INVALID_REQUEST"]


def test_a_cursor_past_the_end_of_a_topic_goes_on_with_the_next(three_topics):
    response = describe(three_topics, cursor=("b", 9))
    assert [(one.name, len(one.partitions)) for one in response.topics] == [("b", 0), ("c", 1)]


def test_a_partition_is_described():
    node = AdminNode(*topic_records("orders", replicas=(1, 2)), brokers=2)
    (topic,) = describe(node, "orders").topics
    (partition,) = topic.partitions
    assert (topic.topic_id, topic.topic_authorized_operations) == (ORDERS_ID, TOPIC_OPERATIONS)
    assert (partition.leader_id, partition.replica_nodes, partition.isr_nodes) == (1, [1, 2], [1, 2])
    assert (partition.eligible_leader_replicas, partition.last_known_elr, partition.offline_replicas) == ([], [], [])
