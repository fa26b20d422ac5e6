"""Access control lists are refused as Kafka without an authorizer does, in every version."""

import pytest

from ottla.base.errors import ErrorCode
from ottla.broker.handlers.acls import APIS
from ottla.wire import api
from ottla.wire.apis import ApiKey
from tests.unit.broker.admin_node import AdminNode, ask


@pytest.mark.parametrize("version", [1, 2, 3])
def test_describe(version):
    response = ask(AdminNode(), APIS, ApiKey.DESCRIBE_ACLS, api.DescribeAclsRequest(), version=version)
    assert response.error_code == ErrorCode.SECURITY_DISABLED
    assert response.error_message == "No Authorizer is configured on the broker"
    assert response.resources == []


@pytest.mark.parametrize("version", [1, 2, 3])
def test_create_is_refused_entry_by_entry(version):
    request = api.CreateAclsRequest(creations=[api.CreateAclsRequest.AclCreation() for _ in range(3)])
    response = ask(AdminNode(), APIS, ApiKey.CREATE_ACLS, request, version=version)
    refusal = (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    assert [(one.error_code, one.error_message) for one in response.results] == [refusal] * 3


@pytest.mark.parametrize("version", [1, 2, 3])
def test_delete_is_refused_filter_by_filter(version):
    request = api.DeleteAclsRequest(filters=[api.DeleteAclsRequest.DeleteAclsFilter() for _ in range(2)])
    response = ask(AdminNode(), APIS, ApiKey.DELETE_ACLS, request, version=version)
    refusal = (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    assert [(one.error_code, one.error_message) for one in response.filter_results] == [refusal] * 2
