"""The features this version of Ottla has levels for: one table for ApiVersions, UpdateFeatures and a new cluster.

A metadata.version level stands for the record versions on disk. The levels of Kafka 4.0 to 4.2 that we support write
the same versions of every record (`records.py`), so that moving between them loses nothing, up or down.
"""

from enum import IntEnum
from typing import Final, NamedTuple

from ottla.metadata.image_parts import FeatureRange

METADATA_VERSION: Final = "metadata.version"
TRANSACTION_VERSION: Final = "transaction.version"
GROUP_VERSION: Final = "group.version"

METADATA_LEVEL_NAMES: Final = {25: "4.0-IV3", 26: "4.1-IV0", 27: "4.1-IV1", 28: "4.2-IV0", 29: "4.2-IV1"}


class SupportedFeature(NamedTuple):
    min_version: int
    max_version: int
    initial_level: int
    """What a new cluster starts with."""

    @property
    def range(self) -> FeatureRange:
        return FeatureRange(self.min_version, self.max_version)


SUPPORTED_FEATURES: Final[dict[str, SupportedFeature]] = {
    METADATA_VERSION: SupportedFeature(min(METADATA_LEVEL_NAMES), max(METADATA_LEVEL_NAMES), max(METADATA_LEVEL_NAMES)),
    TRANSACTION_VERSION: SupportedFeature(0, 2, 2),
    GROUP_VERSION: SupportedFeature(0, 1, 1),
}


class UpgradeType(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3
