"""ListConfigResources (key 74), versions 0 to 1.

0 lists the subscriptions to client metrics (KIP-714); 1 every type of resource (KIP-1142).
"""

from typing import Final

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.metadata.image.image import ConfigResourceType
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

FIRST_VERSION_WITH_TYPES: Final = 1


def handle(ctx: RequestContext, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    """Tell which resources have settings."""
    types = frozenset(request.resource_types)
    if ctx.api_version < FIRST_VERSION_WITH_TYPES:
        types = frozenset({int(ConfigResourceType.CLIENT_METRICS)})
    try:
        resources = ctx.broker.configs.resources(ctx.principal, types)
    except ApiError as error:
        return ListConfigResourcesResponse(error_code=error.code)
    return ListConfigResourcesResponse(
        config_resources=tuple(ConfigResource(resource_name=each.name, resource_type=each.type) for each in resources)
    )


API = Api(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, handle)
