"""RenewDelegationToken (key 39), versions 1 to 2 (KIP-48).

2 flexible.
"""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.no_tokens import NO_TIME, NOT_ALLOWED
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse


def handle(ctx: RequestContext, request: RenewDelegationTokenRequest) -> RenewDelegationTokenResponse:
    """Refuse to renew a token."""
    del ctx, request
    return RenewDelegationTokenResponse(error_code=NOT_ALLOWED, expiry_timestamp_ms=NO_TIME)


API = Api(ApiKey.RENEW_DELEGATION_TOKEN, 1, 2, handle)
