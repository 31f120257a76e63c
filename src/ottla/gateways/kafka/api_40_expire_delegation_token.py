"""ExpireDelegationToken (key 40), versions 1 to 2 (KIP-48).

2 flexible.
"""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.no_tokens import NO_TIME, NOT_ALLOWED
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse


def handle(ctx: RequestContext, request: ExpireDelegationTokenRequest) -> ExpireDelegationTokenResponse:
    """Refuse to end a token."""
    del ctx, request
    return ExpireDelegationTokenResponse(error_code=NOT_ALLOWED, expiry_timestamp_ms=NO_TIME)


API = Api(ApiKey.EXPIRE_DELEGATION_TOKEN, 1, 2, handle)
