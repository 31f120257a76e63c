"""ApiVersions: tell which APIs, versions and features a broker has.

Written by tools/generate_protocol.py from schemas/messages/api_versions.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class ApiVersionsRequest(ApiMessage, frozen=True):
    """The request, versions 0-4, flexible from 3."""

    API_KEY: ClassVar[int] = 18
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4

    client_software_name: str = ""  # 3+
    client_software_version: str = ""  # 3+


class ApiVersion(Struct, frozen=True):
    """Stands in `ApiVersionsResponse.api_keys`."""

    api_key: int = 0  # int16
    min_version: int = 0  # int16
    max_version: int = 0  # int16


class SupportedFeatureKey(Struct, frozen=True):
    """Stands in `ApiVersionsResponse.supported_features`."""

    name: str = ""
    min_version: int = 0  # int16
    max_version: int = 0  # int16


class FinalizedFeatureKey(Struct, frozen=True):
    """Stands in `ApiVersionsResponse.finalized_features`."""

    name: str = ""
    max_version_level: int = 0  # int16
    min_version_level: int = 0  # int16


class ApiVersionsResponse(ApiMessage, frozen=True):
    """The response, versions 0-4, flexible from 3."""

    API_KEY: ClassVar[int] = 18
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4

    error_code: int = 0  # int16
    api_keys: tuple[ApiVersion, ...] = ()
    throttle_time_ms: int = 0  # int32, 1+
    supported_features: tuple[SupportedFeatureKey, ...] = ()  # 3+
    finalized_features_epoch: int = -1  # int64, 3+
    finalized_features: tuple[FinalizedFeatureKey, ...] = ()  # 3+
    zk_migration_ready: bool = False  # 3+
