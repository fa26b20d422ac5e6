"""UpdateFeatures v0–2, and the features part of ApiVersions.

Clients read finalized levels from ApiVersions: transaction.version decides how a transactional producer talks to us.
The epoch of the finalized features is the metadata offset they are known at, so that clients keep the newest.
"""

from __future__ import annotations

from typing import Final

from ottla.base.errors import ApiError
from ottla.broker.node import Node
from ottla.broker.request import Api, RequestContext
from ottla.metadata.controller.features import decide_update_features
from ottla.metadata.features import SUPPORTED_FEATURES
from ottla.metadata.image import MetadataImage
from ottla.wire import api
from ottla.wire.apis import ApiKey

_LEVEL_ZERO_FROM: Final = 4  # Clients of earlier versions fail on a feature whose lowest level is 0 (KAFKA-17492).


async def update_features(
    node: Node, context: RequestContext, request: api.UpdateFeaturesRequest
) -> api.UpdateFeaturesResponse:
    try:
        return await node.submit(lambda image: decide_update_features(image, request, api_version=context.api_version))
    except ApiError as error:
        return api.UpdateFeaturesResponse(error_code=error.code, error_message=error.message)


def describe_features(image: MetadataImage, response: api.ApiVersionsResponse, *, api_version: int) -> None:
    """Fills in what this node supports and what the cluster has finalized."""
    response.supported_features = [
        api.ApiVersionsResponse.SupportedFeatureKey(
            name=name, min_version=feature.min_version, max_version=feature.max_version
        )
        for name, feature in SUPPORTED_FEATURES.items()
        if feature.min_version > 0 or api_version >= _LEVEL_ZERO_FROM
    ]
    response.finalized_features_epoch = image.offset
    response.finalized_features = [
        api.ApiVersionsResponse.FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in sorted(image.features.items())
    ]


APIS: Final[dict[int, Api]] = {
    ApiKey.UPDATE_FEATURES: Api(versions=(0, 2), handle=update_features, is_for_controller=True)
}
