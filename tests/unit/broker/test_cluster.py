import pytest

from ottla.base.errors import ErrorCode
from ottla.broker.handlers.cluster import APIS
from ottla.broker.handlers.metadata import CLUSTER_OPERATIONS, NOT_ASKED
from ottla.wire import api
from ottla.wire.apis import ApiKey
from tests.unit.broker.admin_node import AdminNode, ask
from tests.unit.metadata.cluster import broker_record


def describe(node, *, version=2, listener="PLAINTEXT", **more):
    request = api.DescribeClusterRequest(**more)
    return ask(node, APIS, ApiKey.DESCRIBE_CLUSTER, request, version=version, listener=listener)


@pytest.mark.parametrize("version", range(3))
def test_brokers_controller_and_cluster_id(version):
    response = describe(AdminNode(broker_record(2, rack="a")), version=version, listener="OUTSIDE")
    assert (response.error_code, response.cluster_id, response.controller_id) == (0, "EjRWeBI0VngSNFZ4EjRWeA", 1)
    assert [(one.broker_id, one.host, one.port, one.rack) for one in response.brokers] == [
        (1, "outside-1", 19092, None), (2, "outside-2", 19092, "a")]  # fmt: skip
    assert response.cluster_authorized_operations == NOT_ASKED


def test_a_controller_alone_names_a_broker_for_administrators():
    node = AdminNode(broker_record(2, fenced=True), broker_record(3))
    node.node_id = 9
    assert describe(node).controller_id == 1


def test_operations_when_asked():
    response = describe(AdminNode(), include_cluster_authorized_operations=True)
    assert response.cluster_authorized_operations == CLUSTER_OPERATIONS


def test_fenced_brokers_when_asked():
    node = AdminNode(broker_record(2, fenced=True))
    assert [one.broker_id for one in describe(node).brokers] == [1]
    response = describe(node, include_fenced_brokers=True)
    assert [(one.broker_id, one.is_fenced) for one in response.brokers] == [(1, False), (2, True)]


def test_a_controller_tells_the_controllers():
    endpoint = api.RegisterControllerRecord.ControllerEndpoint
    node = AdminNode(
        *(
            api.RegisterControllerRecord(
                controller_id=one, end_points=[endpoint(name="PLAINTEXT", host=f"host-{one}", port=9092)]
            )
            for one in (1, 7)
        )
    )
    response = describe(node, endpoint_type=2)
    assert (response.error_code, response.endpoint_type, response.controller_id) == (0, 2, 1)
    assert [(one.broker_id, one.host, one.port) for one in response.brokers] == [
        (1, "host-1", 9092),
        (7, "host-7", 9092),
    ]


@pytest.mark.parametrize(("kind", "name"), [(2, "MISMATCHED_ENDPOINT_TYPE"), (9, "UNSUPPORTED_ENDPOINT_TYPE")])
def test_other_endpoints_are_asked_elsewhere(kind, name):
    response = describe(AdminNode(), endpoint_type=kind)
    assert ErrorCode(response.error_code).name == name
    assert response.error_message
