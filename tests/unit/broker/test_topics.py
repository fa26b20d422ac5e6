"""Topics created, deleted and grown through the API, in every version."""

from uuid import UUID

import pytest

from ottla.base.errors import ErrorCode
from ottla.broker.handlers.topics import APIS
from ottla.wire import api
from ottla.wire.apis import ApiKey
from tests.unit.broker.admin_node import AdminNode, ask
from tests.unit.metadata.cluster import topic_records

ORDERS_ID = UUID(int=101)


def create(node, *names, version=7, **more):
    topics = [
        api.CreateTopicsRequest.CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in names
    ]
    return ask(node, APIS, ApiKey.CREATE_TOPICS, api.CreateTopicsRequest(topics=topics, **more), version=version).topics


def delete(node, *names, version=6):
    if version < 6:
        request = api.DeleteTopicsRequest(topic_names=list(names))
    else:
        request = api.DeleteTopicsRequest(
            topics=[api.DeleteTopicsRequest.DeleteTopicState(name=name) for name in names]
        )
    return ask(node, APIS, ApiKey.DELETE_TOPICS, request, version=version).responses


def grow(node, name, count, version=3):
    topic = api.CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=None)
    request = api.CreatePartitionsRequest(topics=[topic])
    return ask(node, APIS, ApiKey.CREATE_PARTITIONS, request, version=version).results


@pytest.mark.parametrize("version", range(2, 8))
def test_create(version):
    node = AdminNode()
    (result,) = create(node, "orders", version=version)
    assert (result.name, result.error_code, result.error_message) == ("orders", 0, None)
    assert len(node.image.topics["orders"].partitions) == 2
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (2, 1)
        assert {one.name: one.value for one in result.configs}["retention.ms"] == "604800000"
    if version >= 7:
        assert result.topic_id == node.image.topics["orders"].id


def test_create_tells_each_topics_error():
    node = AdminNode(*topic_records("a"))
    results = create(node, "a", "b")
    assert [(one.name, one.error_code) for one in results] == [("a", ErrorCode.TOPIC_ALREADY_EXISTS), ("b", 0)]
    assert results[0].error_message == "Topic 'a' already exists."


def test_create_validate_only():
    node = AdminNode()
    (result,) = create(node, "orders", validate_only=True)
    assert result.error_code == 0
    assert not node.image.topics


@pytest.mark.parametrize("version", range(1, 7))
def test_delete(version):
    node = AdminNode(*topic_records("orders"))
    (result,) = delete(node, "orders", version=version)
    assert (result.name, result.error_code) == ("orders", 0)
    assert not node.image.topics


def test_delete_by_id():
    node = AdminNode(*topic_records("orders"))
    request = api.DeleteTopicsRequest(topics=[api.DeleteTopicsRequest.DeleteTopicState(topic_id=ORDERS_ID)])
    (result,) = ask(node, APIS, ApiKey.DELETE_TOPICS, request).responses
    assert (result.name, result.topic_id, result.error_code) == ("orders", ORDERS_ID, 0)


@pytest.mark.parametrize(("version", "name"), [(2, "INVALID_REQUEST"), (3, "TOPIC_DELETION_DISABLED")])
def test_disabled_deletion_in_the_words_of_the_version(version, name):
    (result,) = delete(AdminNode(*topic_records("orders"), topic_deletion_enabled=False), "orders", version=version)
    assert ErrorCode(result.error_code).name == name


@pytest.mark.parametrize("version", range(4))
def test_create_partitions(version):
    node = AdminNode(*topic_records("orders"))
    (result,) = grow(node, "orders", 3, version=version)
    assert (result.name, result.error_code, result.error_message) == ("orders", 0, None)
    assert len(node.image.topics["orders"].partitions) == 3
    (result,) = grow(node, "orders", 2, version=version)
    assert ErrorCode(result.error_code).name == "INVALID_PARTITIONS"
    assert "would not be an increase" in result.error_message


def test_when_the_metadata_cannot_be_written_every_topic_is_told():
    node = AdminNode(*topic_records("orders"))
    node.log.append_error = OSError(28, "No space left on device")
    for results in (create(node, "a", "b"), delete(node, "orders"), delete(node, "orders", version=5),
                    grow(node, "orders", 5)):  # fmt: skip
        assert results
        for result in results:
            assert ErrorCode(result.error_code).name == "KAFKA_STORAGE_ERROR"
            assert "No space left on device" in result.error_message


def test_a_topic_deleted_and_created_again_has_another_id():
    node = AdminNode(*topic_records("orders"))
    delete(node, "orders")
    (result,) = create(node, "orders")
    assert result.topic_id != ORDERS_ID
