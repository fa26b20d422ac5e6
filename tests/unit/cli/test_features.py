"""What a broker says of itself."""

from ottla.cli.features import Feature, features_of, raised_levels
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


def test_an_upgrade_raises_what_is_not_as_high_as_it_can_be_or_what_is_asked_for() -> None:
    behind = Feature(name="metadata.version", finalized=28, supported_min=25, supported_max=29)
    features = [behind, Feature(name="group.version", finalized=1, supported_min=0, supported_max=1)]
    assert raised_levels(features, {}) == {"metadata.version": 29}
    assert raised_levels(features, {"group.version": 0}) == {"group.version": 0}


def test_a_command_that_asks_directly_does_not_know_all_that_librdkafka_knows(run: Run, mock_cluster: str) -> None:
    given = ("-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=GSSAPI")
    result = run("features", "describe", "-b", mock_cluster, *given)
    assert result.exit_code == 1
    assert "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER" in result.stderr
