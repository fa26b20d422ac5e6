"""ApiVersions v0–4: what this node serves, from the dispatch table, and the features supported and finalized."""

from collections.abc import Mapping
from typing import Final

from ottla.broker.handlers.features import describe_features
from ottla.broker.node import Node
from ottla.broker.request import Api, RequestContext
from ottla.wire import api
from ottla.wire.apis import ApiKey


def describe(node: Node, served: Mapping[int, Api], api_version: int) -> api.ApiVersionsResponse:
    response = api.ApiVersionsResponse(
        api_keys=[
            api.ApiVersionsResponse.ApiVersion(api_key=key, min_version=row.versions[0], max_version=row.versions[1])
            for key, row in sorted(served.items())
            if not row.is_internal
        ]
    )
    describe_features(node.image, response, api_version=api_version)
    return response


async def api_versions(node: Node, context: RequestContext, request: api.ApiVersionsRequest) -> api.ApiVersionsResponse:
    from ottla.broker.dispatch import APIS as SERVED  # The table that this row is part of.

    return describe(node, SERVED, context.api_version)


APIS: Final[dict[int, Api]] = {ApiKey.API_VERSIONS: Api(versions=(0, 4), handle=api_versions, is_early=True)}
