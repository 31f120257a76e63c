"""UpdateFeatures (key 57), versions 0 to 2 (KIP-584).

1 safe and unsafe downgrades, and requests that only check (KIP-778); 2 one error for all features (KIP-1022).
"""

from typing import Final

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.metadata.controller.feature_update import FeatureUpdate, UpgradeType
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

FIRST_VERSION_WITH_TYPES: Final = 1
FIRST_VERSION_WITH_ONE_ERROR: Final = 2


async def handle(ctx: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Finalize levels of features: all that are asked for, or none."""
    updates = [_update(ctx.api_version, each) for each in request.feature_updates]
    try:
        await ctx.broker.features.update(ctx.principal, updates, validate_only=request.validate_only)
    except ApiError as error:
        return UpdateFeaturesResponse(error_code=error.code, error_message=error.message)
    results = updates if ctx.api_version < FIRST_VERSION_WITH_ONE_ERROR else ()
    return UpdateFeaturesResponse(
        error_message=None,
        results=tuple(UpdatableFeatureResult(feature=each.name, error_message=None) for each in results),
    )


def _update(version: int, wanted: FeatureUpdateKey) -> FeatureUpdate:
    upgrade_type = wanted.upgrade_type
    if version < FIRST_VERSION_WITH_TYPES:
        upgrade_type = UpgradeType.SAFE_DOWNGRADE if wanted.allow_downgrade else UpgradeType.UPGRADE
    return FeatureUpdate(wanted.feature, wanted.max_version_level, upgrade_type)


API = Api(ApiKey.UPDATE_FEATURES, 0, 2, handle, is_async=True, is_decided_by_controller=True)
