"""What brokers and administrators ask the active controller, as they read its answers."""

import asyncio
from uuid import UUID

import pytest

from ottla.base.errors import ErrorCode
from ottla.broker.dispatch import APIS
from ottla.broker.handlers import api_versions, brokers, reassignments
from ottla.wire import api
from ottla.wire.apis import ApiKey
from sim.world import World
from tests.unit.broker.admin_node import ask
from tests.unit.broker.controlled_cluster import ControlledCluster
from tests.unit.metadata.cluster import partition_of, topic_records

ORDERS = UUID(int=101)


class ControllerNode:
    def __init__(self, *records, brokers=3):
        self.cluster = asyncio.run(self._open(records, brokers))
        self.active_controller = self.cluster.controller
        self.image = self.cluster.image
        self.callers = self.cluster.callers

    async def _open(self, records, brokers):
        return ControlledCluster(World(1), *records, brokers=brokers)

    def ask(self, key, request, **options):
        return ask(self, {**brokers.APIS, **reassignments.APIS}, key, request, **options)


@pytest.fixture
def node():
    return ControllerNode(*topic_records("orders", replicas=(1, 2, 3)))


@pytest.mark.parametrize("version", [2, 3])
def test_a_leader_proposes_another_isr(node, version):
    proposal = api.AlterPartitionRequest.PartitionData(partition_index=0, leader_epoch=0, partition_epoch=0)
    if version == 2:
        proposal.new_isr = [1, 2]
    else:
        proposal.new_isr_with_epochs = [
            api.AlterPartitionRequest.BrokerState(broker_id=one, broker_epoch=7) for one in (1, 2)
        ]
    topic = api.AlterPartitionRequest.TopicData(topic_id=ORDERS, partitions=[proposal])
    request = api.AlterPartitionRequest(broker_id=1, broker_epoch=7, topics=[topic])
    (answer,) = node.ask(ApiKey.ALTER_PARTITION, request, version=version).topics[0].partitions
    assert (answer.error_code, answer.isr, answer.partition_epoch) == (0, [1, 2], 1)
    assert partition_of(node.image).isr == (1, 2)


def test_a_broker_tells_where_its_replica_is(node):
    request = api.AssignReplicasToDirsRequest
    partition = request.PartitionData(partition_index=0)
    topic = request.TopicData(topic_id=ORDERS, partitions=[partition])
    directory = request.DirectoryData(id=UUID(int=77), topics=[topic])
    answer = node.ask(ApiKey.ASSIGN_REPLICAS_TO_DIRS, request(broker_id=2, broker_epoch=7, directories=[directory]))
    assert answer.directories[0].topics[0].partitions[0].error_code == 0
    assert partition_of(node.image).directories[1] == UUID(int=77)


def test_a_heartbeat_shows_who_has_a_connection_open(node):
    node.ask(ApiKey.BROKER_HEARTBEAT, api.BrokerHeartbeatRequest(broker_id=2, broker_epoch=7))
    assert [node.callers.is_there(one) for one in (2, 3)] == [True, False]


def test_producer_ids_come_in_blocks(node):
    request = api.AllocateProducerIdsRequest(broker_id=2, broker_epoch=7)
    first, second = (node.ask(ApiKey.ALLOCATE_PRODUCER_IDS, request) for _ in range(2))
    assert (first.producer_id_start, first.producer_id_len) == (0, 1000)
    assert (second.producer_id_start, second.producer_id_len) == (1000, 1000)


def test_a_broker_is_unregistered_once(node):
    request = api.UnregisterBrokerRequest(broker_id=3)
    assert node.ask(ApiKey.UNREGISTER_BROKER, request).error_code == 0
    again = node.ask(ApiKey.UNREGISTER_BROKER, request)
    assert (again.error_code, again.error_message) == (
        ErrorCode.BROKER_ID_NOT_REGISTERED,
        "Broker 3 is not registered.",
    )


def test_replicas_move_and_the_move_is_listed_until_it_is_cancelled(node):
    def reassign(replicas):
        wanted = api.AlterPartitionReassignmentsRequest.ReassignablePartition(partition_index=0, replicas=replicas)
        topic = api.AlterPartitionReassignmentsRequest.ReassignableTopic(name="orders", partitions=[wanted])
        request = api.AlterPartitionReassignmentsRequest(topics=[topic])
        return node.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, request).responses[0].partitions[0].error_code

    def listed():
        request = api.ListPartitionReassignmentsRequest(topics=None)
        return [
            (topic.name, one.replicas, one.adding_replicas, one.removing_replicas)
            for topic in node.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, request).topics
            for one in topic.partitions
        ]

    node = ControllerNode(*topic_records("orders", replicas=(1, 2)))
    assert listed() == []
    assert reassign([1, 3]) == 0
    assert listed() == [("orders", [1, 3, 2], [3], [2])]
    assert reassign(None) == 0
    assert listed() == []
    assert partition_of(node.image).replicas == (1, 2)


REQUESTS = {
    ApiKey.BROKER_REGISTRATION: api.BrokerRegistrationRequest(),
    ApiKey.BROKER_HEARTBEAT: api.BrokerHeartbeatRequest(),
    ApiKey.CONTROLLER_REGISTRATION: api.ControllerRegistrationRequest(),
    ApiKey.ALTER_PARTITION: api.AlterPartitionRequest(),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: api.AssignReplicasToDirsRequest(),
    ApiKey.ALLOCATE_PRODUCER_IDS: api.AllocateProducerIdsRequest(),
    ApiKey.UNREGISTER_BROKER: api.UnregisterBrokerRequest(),
    ApiKey.ELECT_LEADERS: api.ElectLeadersRequest(),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: api.AlterPartitionReassignmentsRequest(),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: api.ListPartitionReassignmentsRequest(),
}


@pytest.mark.parametrize("key", REQUESTS, ids=lambda key: key.name)
def test_who_is_not_the_controller_says_so(node, key):
    node.cluster.runtime.resign()
    assert node.ask(key, REQUESTS[key]).error_code == ErrorCode.NOT_CONTROLLER


def test_every_row_is_covered_here():
    assert REQUESTS.keys() == brokers.APIS.keys() | reassignments.APIS.keys()


def test_clients_are_told_of_what_is_for_them(node):
    told = {one.api_key for one in api_versions.describe(node, APIS, 0).api_keys}
    assert ApiKey.UNREGISTER_BROKER in told
    assert not told & {key for key, row in brokers.APIS.items() if row.is_internal}
