import pytest

from ottla.base.errors import ErrorCode
from ottla.broker.handlers.features import APIS, describe_features
from ottla.wire import api
from ottla.wire.apis import ApiKey
from tests.unit.broker.admin_node import AdminNode, ask

SAFE_DOWNGRADE = 2


def update(node, feature, level, *, version=2, **more):
    key = api.UpdateFeaturesRequest.FeatureUpdateKey(
        feature=feature, max_version_level=level, upgrade_type=SAFE_DOWNGRADE, allow_downgrade=True
    )
    request = api.UpdateFeaturesRequest(feature_updates=[key], **more)
    return ask(node, APIS, ApiKey.UPDATE_FEATURES, request, version=version)


@pytest.mark.parametrize("version", range(3))
def test_a_downgrade_in_every_version(version):
    node = AdminNode()
    response = update(node, "transaction.version", 1, version=version)
    assert response.error_code == 0
    assert [one.error_code for one in response.results] == ([0] if version < 2 else [])
    assert node.image.features["transaction.version"] == 1


def test_a_refusal_speaks_for_the_request():
    response = update(AdminNode(), "group.version", 9)
    assert ErrorCode(response.error_code).name == "INVALID_UPDATE_VERSION"
    assert "only supports versions 0-1" in response.error_message


def test_a_dry_run():
    node = AdminNode()
    assert update(node, "transaction.version", 1, validate_only=True).error_code == 0
    assert node.image.features["transaction.version"] == 2


def test_a_disk_that_refuses_the_metadata_is_told():
    node = AdminNode()
    node.log.append_error = OSError(28, "full")
    assert ErrorCode(update(node, "transaction.version", 1).error_code).name == "KAFKA_STORAGE_ERROR"


def test_api_versions_tells_supported_and_finalized_features():
    node = AdminNode()
    response = api.ApiVersionsResponse()
    describe_features(node.image, response, api_version=4)
    assert {one.name: (one.min_version, one.max_version) for one in response.supported_features} == {
        "metadata.version": (25, 29),
        "transaction.version": (0, 2),
        "group.version": (0, 1),
    }
    assert {one.name: one.max_version_level for one in response.finalized_features} == node.image.features
    assert response.finalized_features_epoch == node.image.offset


def test_older_clients_are_spared_features_whose_lowest_level_is_zero():
    response = api.ApiVersionsResponse()
    describe_features(AdminNode().image, response, api_version=3)
    assert [one.name for one in response.supported_features] == ["metadata.version"]
