"""ApiVersions (key 18), versions 0 to 4.

1 throttle time; 2 the same as 1; 3 flexible, the client says what it is (KIP-511), features (KIP-584); 4 a supported
feature may start at version 0 (KAFKA-17011). The header of the answer is always version 0, and a version that is not
served is answered in version 0, so that any client can read it; the gateway does that.
"""

import re
from typing import Final

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.error_code import ErrorCode
from ottla.model.principal import BROKER
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.api_versions import ApiVersion as ServedVersions
from ottla.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

FIRST_VERSION_WITH_CLIENT: Final = 3
FIRST_VERSION_WITH_LEVEL_0: Final = 4

_CLIENT: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")
"""What a client may call itself and its version: letters and digits, with dots and dashes between."""

OWN_CLIENT: Final = "ottla"
"""What Ottla's own client calls itself."""

NAME_CHARACTERS_MAX: Final = 255
"""So much of what a client calls itself is kept, for as long as its connection lasts."""


def handle(ctx: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Tell which APIs are served in which versions, and which levels of features are supported and finalized."""
    if ctx.api_version >= FIRST_VERSION_WITH_CLIENT and not (
        _CLIENT.fullmatch(request.client_software_name) and _CLIENT.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    if ctx.api_version >= FIRST_VERSION_WITH_CLIENT:
        ctx.kafka_connection.software = (
            request.client_software_name[:NAME_CHARACTERS_MAX],
            request.client_software_version[:NAME_CHARACTERS_MAX],
        )
    features = ctx.broker.features
    finalized = features.finalized
    lowest = 0 if ctx.api_version >= FIRST_VERSION_WITH_LEVEL_0 else 1
    return ApiVersionsResponse(
        api_keys=_served(ctx),
        supported_features=tuple(
            SupportedFeatureKey(name=each.name, min_version=each.min_level, max_version=each.max_level)
            for each in features.supported
            if each.min_level >= lowest
        ),
        finalized_features_epoch=finalized.epoch,
        finalized_features=tuple(
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in finalized.levels.items()
        ),
    )


def _served(ctx: RequestContext) -> tuple[ServedVersions, ...]:
    """What the one who asks may use: an API that Kafka does not have may confuse other clients."""
    connection = ctx.kafka_connection
    if ctx.principal.type == BROKER:
        return connection.gateway.served_versions_to_brokers
    if connection.software is not None and connection.software[0] == OWN_CLIENT:
        return connection.gateway.served_versions + connection.gateway.extensions
    return connection.gateway.served_versions


API = Api(ApiKey.API_VERSIONS, 0, 4, handle)
