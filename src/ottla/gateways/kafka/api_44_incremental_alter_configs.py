"""IncrementalAlterConfigs (key 44), versions 0 to 1 (KIP-339).

1 flexible.
"""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.api_32_describe_configs import config_resource_type
from ottla.gateways.kafka.context import RequestContext
from ottla.metadata.controller.config_alteration import Alteration, AlterOperation, ResourceAlteration
from ottla.metadata.controller.decision import Outcome
from ottla.metadata.image.image import ConfigResource
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

ResourceKey = tuple[int, str]


async def handle(ctx: RequestContext, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    """Change settings of topics and brokers; of each resource all of them or none."""
    outcomes: dict[ResourceKey, Outcome[None]] = {}
    alterations: list[ResourceAlteration] = []
    for wanted in request.resources:
        try:
            alterations.append(_alteration(wanted))
        except ApiError as error:
            outcomes[wanted.resource_type, wanted.resource_name] = error
    try:
        decided = await ctx.broker.configs.alter(alterations, validate_only=request.validate_only)
        outcomes |= {(int(resource.type), resource.name): outcome for resource, outcome in decided.items()}
    except ApiError as error:
        outcomes |= {(int(each.resource.type), each.resource.name): error for each in alterations}
    return IncrementalAlterConfigsResponse(responses=tuple(_response(key, each) for key, each in outcomes.items()))


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


def _response(key: ResourceKey, outcome: Outcome[None]) -> AlterConfigsResourceResponse:
    code, message = (outcome.code, outcome.message) if outcome is not None else (ErrorCode.NONE, None)
    return AlterConfigsResourceResponse(
        error_code=code, error_message=message, resource_type=key[0], resource_name=key[1]
    )


API = Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, handle)
