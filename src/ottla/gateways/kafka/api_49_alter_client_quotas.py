"""AlterClientQuotas (key 49), versions 0 to 1 (KIP-546).

1 flexible.
"""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.metadata.controller.decision import Outcome
from ottla.metadata.controller.quota_alteration import QuotaAlteration
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    RequestEntryData,
    ResponseEntryData,
)


async def handle(ctx: RequestContext, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Change quotas of entities; of each all of them or none."""
    alterations = [_alteration(entry) for entry in request.entries]
    outcomes: list[Outcome[None]]
    try:
        outcomes = await ctx.broker.client_quotas.alter(ctx.principal, alterations, validate_only=request.validate_only)
    except ApiError as error:
        outcomes = [error] * len(alterations)
    return AlterClientQuotasResponse(
        entries=tuple(
            ResponseEntryData(
                error_code=0 if outcome is None else outcome.code,
                error_message=None if outcome is None else outcome.message,
                entity=entry.entity,
            )
            for entry, outcome in zip(request.entries, outcomes, strict=True)
        )
    )


def _alteration(entry: RequestEntryData) -> QuotaAlteration:
    return QuotaAlteration(
        [(part.entity_type, part.entity_name) for part in entry.entity],
        [(each.key, None if each.remove else each.value) for each in entry.ops],
    )


API = Api(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, handle, is_async=True, is_decided_by_controller=True)
