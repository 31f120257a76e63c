"""DescribeClientQuotas (key 48), versions 0 to 1 (KIP-546).

1 flexible.
"""

from ottla.broker.client_quotas import QuotaFilter
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)


def handle(ctx: RequestContext, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    """Tell the quotas of the entities that match."""
    filters = [QuotaFilter(each.entity_type, each.match_type, each.match) for each in request.components]
    try:
        found = ctx.broker.client_quotas.describe(ctx.principal, filters, is_strict=request.strict)
    except ApiError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
    return DescribeClientQuotasResponse(
        error_message=None,
        entries=tuple(
            EntryData(
                entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity),
                values=tuple(ValueData(key=key, value=value) for key, value in quotas.items()),
            )
            for entity, quotas in found
        ),
    )


API = Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, handle)
