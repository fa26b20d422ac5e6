"""Finalized features: upgraded, downgraded, or checked without doing it. All updates of a request apply, or none.

What Kafka's features tool sends works: `upgrade` and `downgrade` with --feature and --metadata, --unsafe, --dry-run;
--release-version also names features that we do not have and is refused whole. A level is granted when this controller
and every registered broker support it.
"""

from __future__ import annotations

from ottla.base.errors import ApiError, ErrorCode
from ottla.metadata.controller.decision import Decision
from ottla.metadata.features import METADATA_VERSION, SUPPORTED_FEATURES, UpgradeType
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_parts import FeatureRange
from ottla.metadata.records import MetadataRecord
from ottla.wire import api


def decide_update_features(
    image: MetadataImage, request: api.UpdateFeaturesRequest, *, api_version: int
) -> Decision[api.UpdateFeaturesResponse]:
    records: list[MetadataRecord] = []
    errors: dict[str, ApiError] = {}
    seen: set[str] = set()
    for update in request.feature_updates:
        try:
            if update.feature in seen:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"Feature {update.feature} is named twice in the request.")
            seen.add(update.feature)
            _check_update(image, update, _upgrade_type(update, api_version))
            records.append(api.FeatureLevelRecord(name=update.feature, feature_level=update.max_version_level))
        except ApiError as error:
            errors[update.feature] = error
    if errors or request.validate_only:
        records = []
    return Decision(records=records, reply=_response(seen, errors, api_version))


def _upgrade_type(update: api.UpdateFeaturesRequest.FeatureUpdateKey, api_version: int) -> UpgradeType:
    if api_version == 0:
        return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    try:
        return UpgradeType(update.upgrade_type)
    except ValueError:
        raise _invalid(update, "The controller does not support the given upgrade type.") from None


def _check_update(
    image: MetadataImage, update: api.UpdateFeaturesRequest.FeatureUpdateKey, upgrade_type: UpgradeType
) -> None:
    level = update.max_version_level
    if level < 0:
        raise _invalid(update, "A feature version cannot be less than 0.")
    supported = SUPPORTED_FEATURES.get(update.feature)
    if supported is None:
        raise _invalid(update, "This controller does not know this feature.")
    _check_supported(update, "This controller", supported.range)
    for broker in image.brokers.values():
        _check_supported(update, f"Broker {broker.id}", broker.features.get(update.feature, FeatureRange(0, 0)))
    current = image.features.get(update.feature, 0)
    if level < current and upgrade_type is UpgradeType.UPGRADE:
        raise _invalid(
            update,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade.",
        )
    if level > current and upgrade_type is not UpgradeType.UPGRADE:
        raise _invalid(update, "Can't downgrade to a newer version.")


def _check_supported(update: api.UpdateFeaturesRequest.FeatureUpdateKey, who: str, supported: FeatureRange) -> None:
    if not supported.min_version <= update.max_version_level <= supported.max_version:
        raise _invalid(update, f"{who} only supports versions {supported.min_version}-{supported.max_version}.")


def _invalid(update: api.UpdateFeaturesRequest.FeatureUpdateKey, reason: str) -> ApiError:
    if update.feature == METADATA_VERSION:
        text = f"Invalid metadata.version {update.max_version_level}. {reason}"
    else:
        text = f"Invalid update version {update.max_version_level} for feature {update.feature}. {reason}"
    return ApiError(ErrorCode.INVALID_UPDATE_VERSION, text)


def _response(features: set[str], errors: dict[str, ApiError], api_version: int) -> api.UpdateFeaturesResponse:
    """From version 2 on the first error speaks for the request; before, every feature has its own."""
    if api_version >= 2:
        if not errors:
            return api.UpdateFeaturesResponse(error_message=None)
        error = next(iter(errors.values()))
        text = f"The update failed for all features since the following feature had an error: {error.message}"
        return api.UpdateFeaturesResponse(error_code=error.code, error_message=text)
    return api.UpdateFeaturesResponse(
        error_message=None,
        results=[_result(feature, errors.get(feature), bool(errors)) for feature in sorted(features)],
    )


def _result(
    feature: str, error: ApiError | None, any_failed: bool
) -> api.UpdateFeaturesResponse.UpdatableFeatureResult:
    if error is None and any_failed:
        error = ApiError(ErrorCode.FEATURE_UPDATE_FAILED, "Not applied, because another feature of the request failed.")
    return api.UpdateFeaturesResponse.UpdatableFeatureResult(
        feature=feature,
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
    )
