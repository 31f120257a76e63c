"""UpdateFeatures: change finalized feature levels.

Written by tools/generate_protocol.py from schemas/messages/update_features.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class FeatureUpdateKey(Struct, frozen=True):
    """Stands in `UpdateFeaturesRequest.feature_updates`."""

    feature: str = ""
    max_version_level: int = 0  # int16
    allow_downgrade: bool = False  # 0
    upgrade_type: int = 1  # int8, 1+


class UpdateFeaturesRequest(ApiMessage, frozen=True):
    """The request, versions 0-2, flexible from 0."""

    API_KEY: ClassVar[int] = 57
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    timeout_ms: int = 60000  # int32
    feature_updates: tuple[FeatureUpdateKey, ...] = ()
    validate_only: bool = False  # 1+


class UpdatableFeatureResult(Struct, frozen=True):
    """Stands in `UpdateFeaturesResponse.results`."""

    feature: str = ""
    error_code: int = 0  # int16
    error_message: str | None = ""


class UpdateFeaturesResponse(ApiMessage, frozen=True):
    """The response, versions 0-2, flexible from 0."""

    API_KEY: ClassVar[int] = 57
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = ""
    results: tuple[UpdatableFeatureResult, ...] = ()  # 0-1
