"""Finalized features, as Kafka's features tool asks for them."""

import pytest

from ottla.base.errors import ErrorCode
from ottla.metadata.controller.features import decide_update_features
from ottla.metadata.features import METADATA_LEVEL_NAMES
from ottla.wire import api
from tests.unit.metadata.cluster import apply, broker_record, image_of

Key = api.UpdateFeaturesRequest.FeatureUpdateKey
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def update(feature="transaction.version", level=1, upgrade_type=SAFE_DOWNGRADE, **more):
    return Key(feature=feature, max_version_level=level, upgrade_type=upgrade_type, **more)


def decide(*updates, image=None, validate_only=False, api_version=2):
    request = api.UpdateFeaturesRequest(feature_updates=list(updates), validate_only=validate_only)
    return decide_update_features(image or image_of(), request, api_version=api_version)


def refusal(*updates, image=None):
    decision = decide(*updates, image=image)
    assert not decision.records
    return ErrorCode(decision.reply.error_code).name, decision.reply.error_message


def test_down_and_up_again():
    image = image_of()
    assert image.features["transaction.version"] == 2
    apply(image, decide(update(level=1), image=image))
    assert image.features["transaction.version"] == 1
    apply(image, decide(update(level=2, upgrade_type=UPGRADE), image=image))
    assert image.features["transaction.version"] == 2


def test_level_zero_switches_a_feature_off():
    image = image_of()
    apply(image, decide(update(level=0), image=image))
    assert "transaction.version" not in image.features


def test_the_metadata_version_moves_both_ways_between_the_levels_we_write():
    image = image_of()
    lowest, highest = min(METADATA_LEVEL_NAMES), max(METADATA_LEVEL_NAMES)
    apply(image, decide(update("metadata.version", lowest), image=image))
    assert image.features["metadata.version"] == lowest
    apply(image, decide(update("metadata.version", highest, UPGRADE), image=image))
    assert image.features["metadata.version"] == highest


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (update(level=1, upgrade_type=UPGRADE), "without setting the upgrade type to either safe or unsafe downgrade"),
        (update("group.version", 2, UPGRADE), "This controller only supports versions 0-1."),
        (
            update("metadata.version", 24, UNSAFE_DOWNGRADE),
            "Invalid metadata.version 24. This controller only supports",
        ),
        (update("nonsense.version", 1, UPGRADE), "does not know this feature"),
        (update(level=-1), "cannot be less than 0"),
        (update(upgrade_type=0), "does not support the given upgrade type"),
    ],
)
def test_an_impossible_update_is_refused_with_the_reason(asked, reason):
    code, text = refusal(asked)
    assert code == "INVALID_UPDATE_VERSION"
    assert reason in text


def test_a_downgrade_does_not_go_up():
    image = image_of(api.FeatureLevelRecord(name="transaction.version", feature_level=1))
    assert "Can't downgrade to a newer version." in refusal(update(level=2), image=image)[1]


def test_every_registered_broker_must_support_the_level():
    image = image_of(broker_record(2, features=[]))
    assert "Broker 2 only supports versions 0-0." in refusal(update(level=1), image=image)[1]


def test_a_feature_is_named_once():
    assert refusal(update(), update(level=0))[0] == "INVALID_REQUEST"


def test_all_updates_apply_or_none():
    decision = decide(update(), update("group.version", 9, UPGRADE))
    assert not decision.records
    assert decision.reply.error_code == ErrorCode.INVALID_UPDATE_VERSION


def test_before_version_2_every_feature_has_its_own_outcome():
    reply = decide(update(), update("group.version", 9, UPGRADE), api_version=1).reply
    assert reply.error_code == 0
    assert [(one.feature, one.error_code) for one in reply.results] == [
        ("group.version", ErrorCode.INVALID_UPDATE_VERSION),
        ("transaction.version", ErrorCode.FEATURE_UPDATE_FAILED),
    ]
    assert [one.error_code for one in decide(update(), api_version=1).reply.results] == [0]


def test_version_0_has_a_flag_instead_of_a_type():
    allowed = Key(feature="transaction.version", max_version_level=1, allow_downgrade=True)
    assert decide(allowed, api_version=0).records
    refused = Key(feature="transaction.version", max_version_level=1, allow_downgrade=False)
    assert not decide(refused, api_version=0).records


def test_a_dry_run_changes_nothing():
    decision = decide(update(), validate_only=True)
    assert decision.reply.error_code == 0
    assert not decision.records
