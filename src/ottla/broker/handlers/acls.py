"""DescribeAcls v1–3, CreateAcls v1–3, DeleteAcls v1–3: refused with SECURITY_DISABLED, as Kafka without an authorizer does.

There are no access control lists yet: whoever reaches a listener may do everything. Tools and admin pages ask all the
same, and this answer is the one they know; a broker that did not serve the APIs would look too old to them. Every node
answers by itself, and the words are Kafka's, because users search for them.
"""

from __future__ import annotations

from typing import Final

from ottla.base.errors import ErrorCode
from ottla.broker.node import Node
from ottla.broker.request import Api, RequestContext
from ottla.wire import api
from ottla.wire.apis import ApiKey

_DESCRIBE_REFUSAL: Final = "No Authorizer is configured on the broker"
_CHANGE_REFUSAL: Final = "No Authorizer is configured."


async def describe_acls(
    node: Node, context: RequestContext, request: api.DescribeAclsRequest
) -> api.DescribeAclsResponse:
    return api.DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=_DESCRIBE_REFUSAL)


async def create_acls(node: Node, context: RequestContext, request: api.CreateAclsRequest) -> api.CreateAclsResponse:
    refusal = api.CreateAclsResponse.AclCreationResult(
        error_code=ErrorCode.SECURITY_DISABLED, error_message=_CHANGE_REFUSAL
    )
    return api.CreateAclsResponse(results=[refusal] * len(request.creations))


async def delete_acls(node: Node, context: RequestContext, request: api.DeleteAclsRequest) -> api.DeleteAclsResponse:
    refusal = api.DeleteAclsResponse.DeleteAclsFilterResult(
        error_code=ErrorCode.SECURITY_DISABLED, error_message=_CHANGE_REFUSAL
    )
    return api.DeleteAclsResponse(filter_results=[refusal] * len(request.filters))


APIS: Final[dict[int, Api]] = {
    ApiKey.DESCRIBE_ACLS: Api(versions=(1, 3), handle=describe_acls),
    ApiKey.CREATE_ACLS: Api(versions=(1, 3), handle=create_acls),
    ApiKey.DELETE_ACLS: Api(versions=(1, 3), handle=delete_acls),
}
