"""Features: which levels brokers support, which of them the cluster has agreed on, and changing that (KIP-584)."""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.client.errors import broker_error
from ottla.client.io.cluster import Cluster
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE, SAFE_DOWNGRADE = 1, 2


class FeatureListing(NamedTuple):
    """A feature with the levels that a broker supports; `level` is the one that holds, 0 when it is not used."""

    feature: str
    lowest: int
    highest: int
    level: int


async def list_features(cluster: Cluster) -> list[FeatureListing]:
    """The features that a broker supports, by name. Raises BrokerError."""
    request = ApiVersionsRequest(client_software_name="ottla", client_software_version="1")
    response = await cluster.ask_any(request, ApiVersionsResponse)
    if response.error_code:
        raise broker_error(response.error_code, "features were not listed")
    levels = {each.name: each.max_version_level for each in response.finalized_features}
    return sorted(
        FeatureListing(each.name, each.min_version, each.max_version, levels.get(each.name, 0))
        for each in response.supported_features
    )


async def update_features(cluster: Cluster, levels: Mapping[str, int], *, validate_only: bool = False) -> None:
    """Have the cluster use these levels, all of them or none; a lower one where it is safe. Raises BrokerError."""
    present = {each.feature: each.level for each in await list_features(cluster)}
    request = UpdateFeaturesRequest(
        feature_updates=tuple(
            FeatureUpdateKey(
                feature=name,
                max_version_level=level,
                upgrade_type=SAFE_DOWNGRADE if level < present.get(name, 0) else UPGRADE,
            )
            for name, level in levels.items()
        ),
        timeout_ms=cluster.options.request_timeout_ms,
        validate_only=validate_only,
    )
    response = await cluster.ask_any(request, UpdateFeaturesResponse)
    if response.error_code:
        raise broker_error(response.error_code, "features were not updated", response.error_message)
