"""AlterConfigs (key 33), versions 0 to 2 (KIP-133).

1 the same as 0; 2 flexible. The settings of the request replace all that the resource had; clients of today send
IncrementalAlterConfigs instead.
"""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.config_resources import change_settings, config_resource_type
from ottla.gateways.kafka.context import RequestContext
from ottla.metadata.controller.config_alteration import Alteration, AlterOperation, ResourceAlteration
from ottla.metadata.image.image import ConfigResource
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def handle(ctx: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Give topics and brokers these settings and no others; of each resource all of it or nothing."""
    responses = await change_settings(
        ctx, request.resources, _alteration, AlterConfigsResourceResponse, validate_only=request.validate_only
    )
    return AlterConfigsResponse(responses=responses)


def _alteration(wanted: AlterConfigsResource) -> ResourceAlteration:
    return ResourceAlteration(
        ConfigResource(config_resource_type(wanted.resource_type), wanted.resource_name),
        [Alteration(each.name, AlterOperation.SET, each.value) for each in wanted.configs],
        replaces_all=True,
    )


API = Api(ApiKey.ALTER_CONFIGS, 0, 2, handle, is_async=True, after_responses=True, is_decided_by_controller=True)
