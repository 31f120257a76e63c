"""RenewDelegationToken (key 39), versions 1 to 2 (KIP-48).

2 flexible.
"""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.api_38_create_delegation_token import NO_TIME
from ottla.gateways.kafka.context import RequestContext
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse


async def handle(ctx: RequestContext, request: RenewDelegationTokenRequest) -> RenewDelegationTokenResponse:
    """Make a token good for longer."""
    tokens, secret = ctx.broker.delegation_tokens, bytes(request.hmac)
    try:
        expires_ms = await tokens.renew(ctx.principal, secret, request.renew_period_ms)
    except ApiError as error:
        return RenewDelegationTokenResponse(error.code, NO_TIME)
    return RenewDelegationTokenResponse(0, expires_ms)


API = Api(ApiKey.RENEW_DELEGATION_TOKEN, 1, 2, handle, is_async=True, is_decided_by_controller=True)
