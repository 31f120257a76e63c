"""DescribeDelegationToken (key 41), versions 1 to 3 (KIP-48).

2 flexible; 3 who asked for a token (KIP-373).
"""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.no_tokens import NOT_ALLOWED
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)


def handle(ctx: RequestContext, request: DescribeDelegationTokenRequest) -> DescribeDelegationTokenResponse:
    """Refuse to show tokens."""
    del ctx, request
    return DescribeDelegationTokenResponse(error_code=NOT_ALLOWED)


API = Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, 1, 3, handle)
