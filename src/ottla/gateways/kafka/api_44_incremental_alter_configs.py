"""IncrementalAlterConfigs (key 44), versions 0 to 1 (KIP-339).

1 flexible.
"""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.config_resources import change_settings, config_resource_type
from ottla.gateways.kafka.context import RequestContext
from ottla.metadata.controller.config_alteration import Alteration, AlterOperation, ResourceAlteration
from ottla.metadata.image.image import ConfigResource, ConfigResourceType
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def handle(ctx: RequestContext, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    """Change settings of topics and brokers; of each resource all of them or none."""
    responses = await change_settings(
        ctx, request.resources, _alteration, AlterConfigsResourceResponse, validate_only=request.validate_only
    )
    return IncrementalAlterConfigsResponse(responses=responses)


def _alteration(wanted: AlterConfigsResource) -> ResourceAlteration:
    return ResourceAlteration(
        ConfigResource(config_resource_type(wanted.resource_type), wanted.resource_name),
        [Alteration(each.name, _operation(each.config_operation), each.value) for each in wanted.configs],
    )


def _operation(number: int) -> AlterOperation:
    try:
        return AlterOperation(number)
    except ValueError:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"there is no operation {number} on settings") from None


def _is_local(request: IncrementalAlterConfigsRequest) -> bool:
    """Whether it is about loggers alone: each broker has its own."""
    return all(each.resource_type == ConfigResourceType.BROKER_LOGGER for each in request.resources)


API = Api(
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    0,
    1,
    handle,
    is_async=True,
    after_responses=True,
    is_decided_by_controller=True,
    is_local=_is_local,
)
