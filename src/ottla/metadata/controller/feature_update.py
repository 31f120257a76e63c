"""Decides about levels of features that somebody wants finalized (KIP-584): all of a request or nothing.

Errors, as Kafka answers them: INVALID_UPDATE_VERSION (no such feature or level, a level below the present one that is
not asked for as a downgrade, one above it that is).
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from msgspec import Struct

from ottla.metadata.controller.decision import Decision
from ottla.metadata.features import FEATURES
from ottla.metadata.image.image import MetadataImage
from ottla.metadata.records import FeatureLevelRecord
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.settings.definition import shortened


class UpgradeType(IntEnum):
    """What may happen to the level; the numbers are those of UpdateFeatures."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


_UPGRADE_TYPES: Final = frozenset(map(int, UpgradeType))


class FeatureUpdate(Struct, frozen=True):
    """A feature and the level it is to have; 0 for not to be used."""

    name: str
    level: int
    upgrade_type: int = UpgradeType.UPGRADE


def decide_feature_update(image: MetadataImage, updates: Sequence[FeatureUpdate]) -> Decision[None]:
    """Finalize the levels. Raises ApiError for the first update that cannot be."""
    for update in updates:
        complaint = _complaint(image, update)
        if complaint is not None:
            raise ApiError(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"invalid update version {update.level} for feature {shortened(update.name)}: {complaint}",
            )
    return Decision(tuple(FeatureLevelRecord(update.name, update.level) for update in updates), None)


def _complaint(image: MetadataImage, update: FeatureUpdate) -> str | None:
    feature = FEATURES.get(update.name)
    if update.upgrade_type not in _UPGRADE_TYPES:
        return f"there is no upgrade type {update.upgrade_type}"
    if feature is None or not feature.is_served:
        return "this broker does not support the feature"
    if not feature.min_level <= update.level <= feature.max_level:
        return f"this broker only supports versions {feature.min_level}-{feature.max_level}"
    present = image.feature_level(update.name)
    if update.level < present and update.upgrade_type == UpgradeType.UPGRADE:
        return f"it is at level {present}; can't downgrade it without setting the upgrade type to a downgrade"
    if update.level > present and update.upgrade_type != UpgradeType.UPGRADE:
        return f"it is at level {present}, and a downgrade leads to no higher level"
    return None
