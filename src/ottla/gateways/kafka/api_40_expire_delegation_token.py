"""ExpireDelegationToken (key 40), versions 1 to 2 (KIP-48).

2 flexible.
"""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.api_38_create_delegation_token import NO_TIME
from ottla.gateways.kafka.context import RequestContext
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse


async def handle(ctx: RequestContext, request: ExpireDelegationTokenRequest) -> ExpireDelegationTokenResponse:
    """End a token, at once or after a while."""
    tokens, secret = ctx.broker.delegation_tokens, bytes(request.hmac)
    try:
        expires_ms = await tokens.expire(ctx.principal, secret, request.expiry_time_period_ms)
    except ApiError as error:
        return ExpireDelegationTokenResponse(error.code, NO_TIME)
    return ExpireDelegationTokenResponse(0, expires_ms)


API = Api(ApiKey.EXPIRE_DELEGATION_TOKEN, 1, 2, handle, is_async=True, is_decided_by_controller=True)
