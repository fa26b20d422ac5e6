"""What a broker says of itself."""

from ottla.cli.cluster import Feature, features_of
from ottla.wire import api
from tests.unit.cli.conftest import Run


def test_features_in_force_and_possible_are_joined_by_name() -> None:
    response = api.ApiVersionsResponse(
        supported_features=[
            api.ApiVersionsResponse.SupportedFeatureKey(name="metadata.version", min_version=7, max_version=30),
            api.ApiVersionsResponse.SupportedFeatureKey(name="group.version", min_version=0, max_version=1),
        ],
        finalized_features=[
            api.ApiVersionsResponse.FinalizedFeatureKey(
                name="metadata.version", max_version_level=29, min_version_level=29
            ),
            api.ApiVersionsResponse.FinalizedFeatureKey(name="other", max_version_level=1, min_version_level=1),
        ],
    )
    assert features_of(response) == [
        Feature(name="group.version", finalized=0, supported_min=0, supported_max=1),
        Feature(name="metadata.version", finalized=29, supported_min=7, supported_max=30),
        Feature(name="other", finalized=1, supported_min=None, supported_max=None),
    ]


def test_a_command_that_asks_directly_needs_plain_text(run: Run, mock_cluster: str) -> None:
    result = run("features", "describe", "-b", mock_cluster, "-X", "security.protocol=SSL")
    assert result.exit_code == 1
    assert "PLAINTEXT" in result.stderr
